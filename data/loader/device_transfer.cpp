#include "data/loader/device_transfer.h"

#include <ATen/ATen.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "lockstep/error.h"

namespace lockstep::data {
namespace {

// Copies are quick; were they not, page-locked memory would still be bounded.
constexpr size_t kMaxSources = 2;

}  // namespace

DeviceTransfer::DeviceTransfer(at::Device device)
    : device_(device),
      stream_(c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device)) {}

void DeviceTransfer::start(Batch batch) {
  check(!has_batch(), "one batch travels at a time");
  std::erase_if(arrived_, [](const Copy& copy) { return copy.done.query(); });
  if (arrived_.size() >= kMaxSources) {
    arrived_.front().done.synchronize();
    arrived_.erase(arrived_.begin());
  }
  const c10::StreamGuard guard(stream_);
  auto target = batch.to(device_);
  c10::Event done(device_.type());
  done.record(stream_);
  traveling_.emplace(Copy{std::move(batch), std::move(target), std::move(done)});
}

Batch DeviceTransfer::finish() {
  check(has_batch(), "no batch is on its way");
  const auto current = c10::impl::VirtualGuardImpl(device_.type()).getStream(device_);
  traveling_->done.block(current);
  // The memory belongs to the copying stream; it must not be reused there while the current one
  // works with it.
  for (const auto& [name, tensor] : traveling_->target.fields) tensor.record_stream(current);
  auto batch = std::move(traveling_->target);
  traveling_->target = {};
  arrived_.push_back(std::move(*traveling_));
  traveling_.reset();
  return batch;
}

}  // namespace lockstep::data
