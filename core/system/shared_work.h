// A parallel for loop that is also executed by the threads that wait for its result.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <map>

#include "core/system/mutex.h"

namespace lockstep {

using LoopBody = std::function<void(size_t number)>;

// Calls piece(0) to piece(count - 1), each once, in any order and on any thread.
using ParallelFor = std::function<void(size_t count, const LoopBody& piece)>;

// Executes the loop on the calling thread.
inline void serial_for(size_t count, const LoopBody& piece) {
  for (size_t number = 0; number < count; ++number) piece(number);
}

// One thread calls do_all(), any number of times, and finally close(); other threads call help().
class SharedWork {
 public:
  // Executes the loop and returns when all pieces are done, including those of helpers. Runs all
  // pieces even if some throw, then rethrows the exception of the piece with the lowest number.
  void do_all(size_t count, const LoopBody& piece) {
    MutexLock lock(mutex_);
    piece_ = &piece;
    next_ = done_ = 0;
    count_ = count;
    errors_.clear();
    changed_.notify_all();
    work();
    // No timeout: helpers are executing their last pieces.
    changed_.wait(lock.native(), [&]() REQUIRES(mutex_) { return done_ == count_; });
    if (!errors_.empty()) std::rethrow_exception(errors_.begin()->second);
  }

  // Executes pieces as they become available, until close().
  void help() {
    MutexLock lock(mutex_);
    while (!closed_) {
      work();
      // No timeout: the thread that owns the work always calls close(), also on error.
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
  const LoopBody* piece_ GUARDED_BY(mutex_) = nullptr;
  size_t next_ GUARDED_BY(mutex_) = 0, done_ GUARDED_BY(mutex_) = 0, count_ GUARDED_BY(mutex_) = 0;
  // Exceptions by piece number.
  std::map<size_t, std::exception_ptr> errors_ GUARDED_BY(mutex_);
  bool closed_ GUARDED_BY(mutex_) = false;
};

inline ParallelFor parallel_for(SharedWork& work) {
  return [&work](size_t count, const LoopBody& piece) { work.do_all(count, piece); };
}

}  // namespace lockstep
