#include "data/loader.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.h"

namespace lockstep {
namespace {

constexpr int64_t kAheadPerWorker = 2;

int64_t count_batches(size_t samples, const LoaderOptions& options) {
  check(options.batch_size >= 1, "batch_size must be at least 1");
  const auto total = static_cast<int64_t>(samples);
  return options.drop_last ? total / options.batch_size
                           : (total + options.batch_size - 1) / options.batch_size;
}

}  // namespace

Loader::Loader(const Dataset& dataset, std::vector<int64_t> indices, LoaderOptions options)
    : dataset_(dataset),
      indices_(std::move(indices)),
      options_(options),
      num_batches_(count_batches(indices_.size(), options)),
      position_(options.first_batch),
      claimed_(options.first_batch),
      taken_(options.first_batch) {
  check(options.workers >= 0, "workers must be at least 0");
  check(position_ >= 0 && position_ <= num_batches_, "first_batch is outside the epoch");
  const auto workers = std::min(options.workers, num_batches_ - position_);
  slots_.resize(static_cast<size_t>(workers * kAheadPerWorker));
  for (int64_t i = 0; i < workers; ++i)
    workers_.emplace_back([this](const std::stop_token& stop) { work(stop); });
}

Loader::~Loader() {
  // All are told before the first is waited for.
  for (auto& worker : workers_) worker.request_stop();
}

std::optional<Batch> Loader::next() {
  if (position_ == num_batches_) return std::nullopt;
  if (workers_.empty()) return load(position_++);
  auto slot = take();
  ++position_;
  if (slot.error) std::rethrow_exception(slot.error);
  return std::move(slot.batch);
}

Loader::Slot Loader::take() {
  std::unique_lock lock(mutex_);
  auto& slot = slot_of(taken_);
  if (!ready_.wait_for(lock, options_.timeout, [&] { return slot.ready(); }))
    throw environment_error(
        fmt::format("data loader: batch {} was not loaded within {} s: the storage of the dataset "
                    "hangs or is too slow",
                    position_, std::chrono::duration<double>(options_.timeout).count()));
  auto result = std::exchange(slot, {});
  ++taken_;
  lock.unlock();
  room_.notify_one();
  return result;
}

Batch Loader::load(int64_t batch) const {
  const auto begin = static_cast<size_t>(batch * options_.batch_size);
  const auto size = std::min(static_cast<size_t>(options_.batch_size), indices_.size() - begin);
  return dataset_.get_batch(std::span(indices_).subspan(begin, size));
}

// The next batch that nobody loads, once there is room for it; nothing when all are claimed or the
// loader ends.
std::optional<int64_t> Loader::claim(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  const auto capacity = static_cast<int64_t>(slots_.size());
  const auto may_go_on = [&] { return claimed_ == num_batches_ || claimed_ < taken_ + capacity; };
  // Not timed: how long a batch lies here is the training's pace; the end of the loader ends the
  // wait.
  if (!room_.wait(lock, stop, may_go_on) || stop.stop_requested() || claimed_ == num_batches_)
    return std::nullopt;
  return claimed_++;
}

void Loader::work(const std::stop_token& stop) {
  while (const auto batch = claim(stop)) {
    Slot loaded;
    try {
      loaded.batch = load(*batch);
    } catch (...) {
      loaded.error = std::current_exception();
    }
    bool wanted = false;
    {
      const std::lock_guard lock(mutex_);
      slot_of(*batch) = std::move(loaded);
      wanted = *batch == taken_;
    }
    if (wanted) ready_.notify_one();
  }
}

}  // namespace lockstep
