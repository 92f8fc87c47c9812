#include "data/loader/loader.h"

#include <utility>

#include "lockstep/error.h"

namespace lockstep::data {
namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

Loader::Loader(const Dataset& dataset, IndexSequence indices, const LoaderOptions& options)
    : reader_(std::make_shared<BatchReader>(dataset, std::move(indices), options)) {
  check(options.workers >= 0, "workers must be at least 0");
  check(options.prefetch >= 1, "prefetch must be at least 1");
  if (!options.device.is_cpu()) transfer_ = std::make_unique<DeviceTransfer>(options.device);
  if (options.workers > 0 && num_batches() > 0) queue_.emplace(reader_, options);
}

std::optional<Batch> Loader::next() {
  const auto begin = Clock::now();
  const auto add_wait = [&] {
    stats_.wait_s += std::chrono::duration<double>(Clock::now() - begin).count();
  };
  std::optional<Batch> batch;
  try {
    batch = next_loaded();
  } catch (...) {
    add_wait();
    throw;
  }
  add_wait();
  if (batch) ++stats_.batches;
  return batch;
}

std::optional<Batch> Loader::next_loaded() {
  if (position_ == num_batches()) return std::nullopt;
  const bool was_copied = transfer_ && transfer_->has_batch();
  stats_.ready += (queue_ ? queue_->num_ready() : 0) + was_copied;
  std::optional<ReadBatch> read;
  if (!failed_ && !was_copied) read = take();  // after a timeout the position is unchanged
  ++position_;
  if (failed_) std::rethrow_exception(std::exchange(failed_, nullptr));
  if (read) {
    auto batch = reader_->finish(std::move(*read));
    if (!transfer_) return batch;
    transfer_->start(std::move(batch));
  }
  auto batch = transfer_->finish();
  start_next();
  return batch;
}

// Copied while the caller processes the previous one.
void Loader::start_next() {
  if (position_ == num_batches() || !queue_ || !queue_->next_is_ready()) return;
  try {
    transfer_->start(reader_->finish(queue_->take()));
  } catch (...) {
    failed_ = std::current_exception();
  }
}

ReadBatch Loader::take() { return queue_ ? queue_->take() : reader_->read_whole(position_); }

}  // namespace lockstep::data
