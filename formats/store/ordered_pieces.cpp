#include "formats/store/ordered_pieces.h"

#include <algorithm>
#include <utility>

namespace lockstep::formats {

OrderedPieces::First::First(OrderedPieces& pieces, std::string name)
    : pieces_(pieces), name_(std::move(name)) {
  const MutexLock lock(pieces_.mutex_);
  pieces_.first_.insert(name_);
}

OrderedPieces::First::~First() {
  const MutexLock lock(pieces_.mutex_);
  pieces_.first_.erase(pieces_.first_.find(name_));
}

std::pair<int64_t, int64_t> OrderedPieces::Running::claim() {
  const auto begin = next, units = work.piece_units ? work.piece_units() : 1;
  next = work.count - begin < units + (units + 1) / 2 ? work.count : begin + units;
  ++active;
  return {begin, next};
}

void OrderedPieces::run(Work work, const Piece& piece) {
  Running running{.work = std::move(work), .piece = piece};
  {
    const MutexLock lock(mutex_);
    start_threads(running.work.count);
    all_.insert(std::ranges::upper_bound(all_, running.work.order, {},
                                         [](const Running* one) { return one->work.order; }),
                &running);
  }
  changed_.notify_all();
  if (running.work.idle.count() > 0) wait_while_others_run(running);
  for (;;) {
    std::pair<int64_t, int64_t> units;
    {
      const MutexLock lock(mutex_);
      if (!running.has_more()) break;
      units = running.claim();
    }
    call(running, units);
  }
  MutexLock lock(mutex_);
  ended_.wait(lock.native(), [&]() REQUIRES(mutex_) { return running.has_ended(); });
  std::erase(all_, &running);
  if (running.failure) std::rethrow_exception(running.failure);
}

// Until all pieces have ended, or none was run for running.work.idle.
void OrderedPieces::wait_while_others_run(const Running& running) {
  MutexLock lock(mutex_);
  for (;;) {
    const auto before = running.next;
    const bool has_ended = ended_.wait_for(lock.native(), running.work.idle,
                                           [&]() REQUIRES(mutex_) { return running.has_ended(); });
    if (has_ended || (running.next == before && running.active == 0)) return;
  }
}

void OrderedPieces::start_threads(int64_t pieces) {
  const auto wanted = std::min<int64_t>(max_threads_, std::ssize(threads_) + pieces);
  while (std::ssize(threads_) < wanted)
    threads_.emplace_back([this] { work_on(stop_.get_token()); });
}

void OrderedPieces::work_on(const std::stop_token& stop) {
  for (;;) {
    Running* running = nullptr;
    std::pair<int64_t, int64_t> units;
    {
      MutexLock lock(mutex_);
      changed_.wait(lock.native(), stop, [&]() REQUIRES(mutex_) {
        running = next_work();
        return running != nullptr;
      });
      if (stop.stop_requested()) return;
      units = running->claim();
    }
    call(*running, units);
  }
}

OrderedPieces::Running* OrderedPieces::next_work() const {
  Running* found = nullptr;
  for (auto* running : all_) {
    if (!running->has_more()) continue;
    if (first_.contains(running->work.name)) return running;
    if (!found) found = running;
  }
  return found;
}

// Called without the lock. `running` must not be used after its last piece has ended.
void OrderedPieces::call(Running& running, std::pair<int64_t, int64_t> units) {
  std::exception_ptr failure;
  try {
    running.piece(units.first, units.second);
  } catch (...) {
    failure = std::current_exception();
  }
  const MutexLock lock(mutex_);
  if (failure) {
    running.next = running.work.count;
    if (!running.failure) running.failure = failure;
  }
  --running.active;
  if (running.has_ended()) ended_.notify_all();
}

}  // namespace lockstep::formats
