// Work that a thread cuts into pieces, so that threads that wait for its result do it too.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <map>

#include "core/system/mutex.h"

namespace lockstep {

using Piece = std::function<void(size_t number)>;

// Does piece(0) to piece(count - 1), each once, in any order and on any thread.
using DoPieces = std::function<void(size_t count, const Piece& piece)>;

inline void do_in_turn(size_t count, const Piece& piece) {
  for (size_t number = 0; number < count; ++number) piece(number);
}

// One thread calls do_all(), any number of times, and close() at last; any others help().
class SharedWork {
 public:
  // Returns when all pieces are done, here and by helpers. All are tried; then throws what that of
  // the lowest number threw.
  void do_all(size_t count, const Piece& piece) {
    MutexLock lock(mutex_);
    piece_ = &piece;
    next_ = done_ = 0;
    count_ = count;
    errors_.clear();
    changed_.notify_all();
    work();
    // Not timed, as the work itself: helpers are at their last pieces.
    changed_.wait(lock.native(), [&]() REQUIRES(mutex_) { return done_ == count_; });
    if (!errors_.empty()) std::rethrow_exception(errors_.begin()->second);
  }

  // Does pieces whenever there are any, until close().
  void help() {
    MutexLock lock(mutex_);
    while (!closed_) {
      work();
      // Not timed: the thread that has the work closes it, by an error if need be.
      changed_.wait(lock.native(), [&]() REQUIRES(mutex_) { return closed_ || next_ < count_; });
    }
  }

  void close() {
    const MutexLock lock(mutex_);
    closed_ = true;
    changed_.notify_all();
  }

 private:
  void work() REQUIRES(mutex_) {
    while (next_ < count_) {
      const auto number = next_++;
      const auto& piece = *piece_;
      mutex_.unlock();
      std::exception_ptr error;
      try {
        piece(number);
      } catch (...) {
        error = std::current_exception();
      }
      mutex_.lock();
      if (error) errors_.emplace(number, error);
      if (++done_ == count_) changed_.notify_all();
    }
  }

  Mutex mutex_;
  std::condition_variable changed_;
  const Piece* piece_ GUARDED_BY(mutex_) = nullptr;
  size_t next_ GUARDED_BY(mutex_) = 0, done_ GUARDED_BY(mutex_) = 0, count_ GUARDED_BY(mutex_) = 0;
  // What pieces threw, by their numbers.
  std::map<size_t, std::exception_ptr> errors_ GUARDED_BY(mutex_);
  bool closed_ GUARDED_BY(mutex_) = false;
};

inline DoPieces pieces_of(SharedWork& work) {
  return [&work](size_t count, const Piece& piece) { work.do_all(count, piece); };
}

}  // namespace lockstep
