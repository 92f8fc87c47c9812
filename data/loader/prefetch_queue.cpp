#include "data/loader/prefetch_queue.h"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <utility>

#include "lockstep/error.h"

namespace lockstep::data {
namespace {

// Whole batches if every worker has one to read; parts of batches if there are more workers.
int64_t count_rows_per_piece(const LoaderOptions& options, bool divisible) {
  if (!divisible || options.workers <= options.prefetch) return options.batch_size;
  const auto pieces = (options.workers + options.prefetch - 1) / options.prefetch;
  return std::max<int64_t>(1, (options.batch_size + pieces - 1) / pieces);
}

}  // namespace

PrefetchQueue::PrefetchQueue(BatchReader& reader, const LoaderOptions& options)
    : reader_(reader),
      name_(options.name),
      timeout_(options.timeout),
      rows_per_piece_(count_rows_per_piece(options, reader.is_divisible())),
      shares_batches_(rows_per_piece_ < options.batch_size),
      scheduler_(reader.cut(), rows_per_piece_,
                 std::min(options.prefetch, reader.cut().num_batches())),
      places_(static_cast<size_t>(std::min(options.prefetch, reader.cut().num_batches()))) {
  const auto pieces = (options.batch_size + rows_per_piece_ - 1) / rows_per_piece_;
  try {
    for (int64_t i = 0; i < std::min(options.workers, std::ssize(places_) * pieces); ++i) {
      workers_.emplace_back([this] { work(); });
      // Hang reports show the stacks of these threads.
      ::pthread_setname_np(workers_.back().native_handle(), "lockstep-data");
    }
  } catch (...) {
    end();  // those that have started would not be joined otherwise
    throw;
  }
}

PrefetchQueue::~PrefetchQueue() { end(); }

void PrefetchQueue::end() {
  {
    const MutexLock lock(mutex_);
    ends_ = true;
  }
  room_.notify_all();
}

int64_t PrefetchQueue::num_ready() {
  const MutexLock lock(mutex_);
  return scheduler_.num_ready();
}

bool PrefetchQueue::next_is_ready() {
  const MutexLock lock(mutex_);
  return scheduler_.next_is_ready();
}

ReadBatch PrefetchQueue::take() {
  MutexLock lock(mutex_);
  if (!ready_.wait_for(lock.native(), timeout_,
                       [&]() REQUIRES(mutex_) { return scheduler_.next_is_ready(); }))
    throw environment_error(
        fmt::format("{}: batch {} was not loaded within {} s: the storage of the dataset is "
                    "blocked or too slow",
                    name_, scheduler_.next(), std::chrono::duration<double>(timeout_).count()));
  auto result = std::exchange(places_[scheduler_.place_of(scheduler_.next())], {});
  scheduler_.take();
  lock.unlock();
  // There is space for one more batch, which several workers read if they share batches.
  if (shares_batches_)
    room_.notify_all();
  else
    room_.notify_one();
  return result;
}

// nullopt if all are claimed or the queue ends.
std::optional<PrefetchQueue::Claim> PrefetchQueue::claim() {
  MutexLock lock(mutex_);
  // No timeout: how long a batch waits here depends on the training; destruction wakes the thread.
  room_.wait(lock.native(), [&]() REQUIRES(mutex_) {
    return ends_ || scheduler_.all_are_claimed() || scheduler_.can_claim();
  });
  const auto piece = ends_ ? std::nullopt : scheduler_.claim();
  if (!piece) return std::nullopt;
  auto& place = places_[scheduler_.place_of(piece->batch)];
  if (piece->begin == 0) place = reader_.begin(piece->batch);
  return Claim{*piece, &place, place.rows.error != nullptr};
}

void PrefetchQueue::finish(const Claim& claim, ReadRows rows) {
  bool is_wanted = false;
  {
    const MutexLock lock(mutex_);
    auto& all = claim.place->rows;
    all.bad.merge(rows.bad);
    if (!all.error) all.error = std::move(rows.error);
    is_wanted = scheduler_.finish(claim.piece);
  }
  if (is_wanted) ready_.notify_one();
}

void PrefetchQueue::work() {
  while (const auto claim = this->claim())
    finish(*claim, claim->is_lost ? ReadRows() : reader_.read(claim->piece, claim->place->batch));
}

}  // namespace lockstep::data
