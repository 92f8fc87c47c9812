#include "data/loader/prefetch_queue.h"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <condition_variable>
#include <optional>
#include <utility>

#include "core/system/mutex.h"
#include "data/loader/batch_scheduler.h"
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

// What the workers share with the queue, and hold: one that is blocked may outlive it.
struct PrefetchQueue::State {
  State(std::shared_ptr<BatchReader> given, const LoaderOptions& options)
      : reader(std::move(given)),
        num_places(std::min(options.prefetch, reader->cut().num_batches())),
        rows_per_piece(count_rows_per_piece(options, reader->is_divisible())),
        scheduler(reader->cut(), rows_per_piece, num_places),
        places(static_cast<size_t>(num_places)) {}

  void end();
  void work();

  const std::shared_ptr<BatchReader> reader;
  const int64_t num_places, rows_per_piece;
  Mutex mutex;
  BatchScheduler scheduler GUARDED_BY(mutex);
  // Batches from their first claim until they are taken. The workers that read a batch own its
  // tensors until no piece is left; the rest is guarded.
  std::vector<ReadBatch> places GUARDED_BY(mutex);
  bool ends GUARDED_BY(mutex) = false;  // the workers must exit
  std::condition_variable room;         // a batch was taken, or `ends` is set
  std::condition_variable ready;        // the batch that is taken next is ready

 private:
  struct Claim {
    BatchPiece piece;
    ReadBatch* place;
    bool is_lost;  // the batch has failed already
  };

  std::optional<Claim> claim();
  void finish(const Claim& claim, ReadRows rows);
};

PrefetchQueue::PrefetchQueue(std::shared_ptr<BatchReader> reader, const LoaderOptions& options)
    : name_(options.name),
      timeout_(options.timeout),
      state_(std::make_shared<State>(std::move(reader), options)),
      shares_batches_(state_->rows_per_piece < options.batch_size) {
  const auto rows = state_->rows_per_piece;
  const auto pieces = (options.batch_size + rows - 1) / rows;
  try {
    for (int64_t i = 0; i < std::min(options.workers, state_->num_places * pieces); ++i) {
      workers_.emplace_back([state = state_] { state->work(); });
      // Hang reports show the stacks of these threads.
      ::pthread_setname_np(workers_.back().native_handle(), "lockstep-data");
    }
  } catch (...) {
    state_->end();  // those that have started would not be joined otherwise
    throw;
  }
}

PrefetchQueue::~PrefetchQueue() {
  state_->end();
  if (!has_timed_out_) return;
  for (auto& worker : workers_) worker.detach();
}

int64_t PrefetchQueue::num_ready() {
  auto& state = *state_;
  const MutexLock lock(state.mutex);
  return state.scheduler.num_ready();
}

bool PrefetchQueue::next_is_ready() {
  auto& state = *state_;
  const MutexLock lock(state.mutex);
  return state.scheduler.next_is_ready();
}

ReadBatch PrefetchQueue::take() {
  auto& state = *state_;
  MutexLock lock(state.mutex);
  has_timed_out_ = !state.ready.wait_for(lock.native(), timeout_, [&]() REQUIRES(state.mutex) {
    return state.scheduler.next_is_ready();
  });
  if (has_timed_out_)
    throw environment_error(fmt::format(
        "{}: batch {} was not loaded within {} s: the storage of the dataset is "
        "blocked or too slow",
        name_, state.scheduler.next(), std::chrono::duration<double>(timeout_).count()));
  auto result = std::exchange(state.places[state.scheduler.place_of(state.scheduler.next())], {});
  state.scheduler.take();
  lock.unlock();
  // There is space for one more batch, which several workers read if they share batches.
  if (shares_batches_)
    state.room.notify_all();
  else
    state.room.notify_one();
  return result;
}

void PrefetchQueue::State::end() {
  {
    const MutexLock lock(mutex);
    ends = true;
  }
  room.notify_all();
}

// nullopt if all are claimed or the queue ends.
std::optional<PrefetchQueue::State::Claim> PrefetchQueue::State::claim() {
  MutexLock lock(mutex);
  // No timeout: how long a batch waits here depends on the training; destruction wakes the thread.
  room.wait(lock.native(), [&]() REQUIRES(mutex) {
    return ends || scheduler.all_are_claimed() || scheduler.can_claim();
  });
  const auto piece = ends ? std::nullopt : scheduler.claim();
  if (!piece) return std::nullopt;
  auto& place = places[scheduler.place_of(piece->batch)];
  if (piece->begin == 0) place = reader->begin(piece->batch);
  return Claim{*piece, &place, place.rows.error != nullptr};
}

void PrefetchQueue::State::finish(const Claim& claim, ReadRows rows) {
  bool is_wanted = false;
  {
    const MutexLock lock(mutex);
    auto& all = claim.place->rows;
    all.bad.merge(rows.bad);
    if (!all.error) all.error = std::move(rows.error);
    is_wanted = scheduler.finish(claim.piece);
  }
  if (is_wanted) ready.notify_one();
}

void PrefetchQueue::State::work() {
  while (const auto claim = this->claim())
    finish(*claim, claim->is_lost ? ReadRows() : reader->read(claim->piece, claim->place->batch));
}

}  // namespace lockstep::data
