#include "data/loader/device_transfer.h"

#include <ATen/ATen.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "lockstep/error.h"

namespace lockstep::data {
namespace {

// Copies are fast; this bounds page-locked memory in any case.
constexpr size_t kMaxSources = 2;

}  // namespace

DeviceTransfer::DeviceTransfer(at::Device device)
    : device_(device),
      stream_(c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device)) {}

void DeviceTransfer::start(Batch batch) {
  check(!has_batch(), "a batch is already being copied");
  std::erase_if(finished_, [](const Copy& copy) { return copy.done.query(); });
  if (finished_.size() >= kMaxSources) {
    finished_.front().done.synchronize();
    finished_.erase(finished_.begin());
  }
  const c10::StreamGuard guard(stream_);
  auto target = batch.to(device_);
  c10::Event done(device_.type());
  done.record(stream_);
  in_flight_.emplace(Copy{std::move(batch), std::move(target), std::move(done)});
}

Batch DeviceTransfer::finish() {
  check(has_batch(), "no batch is being copied");
  const auto current = c10::impl::VirtualGuardImpl(device_.type()).getStream(device_);
  in_flight_->done.block(current);
  // The memory belongs to the copying stream, which must not reuse it while the current stream
  // does.
  for (const auto& [name, tensor] : in_flight_->target.fields) tensor.record_stream(current);
  auto batch = std::move(in_flight_->target);
  in_flight_->target = {};
  finished_.push_back(std::move(*in_flight_));
  in_flight_.reset();
  return batch;
}

}  // namespace lockstep::data
