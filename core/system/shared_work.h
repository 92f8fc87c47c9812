// Work that a thread cuts into pieces, so that threads that wait for its result do it too.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <map>
#include <mutex>

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
    std::unique_lock lock(mutex_);
    piece_ = &piece;
    next_ = done_ = 0;
    count_ = count;
    errors_.clear();
    changed_.notify_all();
    work(lock);
    // Not timed, as the work itself: helpers are at their last pieces.
    changed_.wait(lock, [&] { return done_ == count_; });
    if (!errors_.empty()) std::rethrow_exception(errors_.begin()->second);
  }

  // Does pieces whenever there are any, until close().
  void help() {
    std::unique_lock lock(mutex_);
    while (!closed_) {
      work(lock);
      // Not timed: the thread that has the work closes it, by an error if need be.
      changed_.wait(lock, [&] { return closed_ || next_ < count_; });
    }
  }

  void close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    changed_.notify_all();
  }

 private:
  void work(std::unique_lock<std::mutex>& lock) {
    while (next_ < count_) {
      const auto number = next_++;
      const auto& piece = *piece_;
      lock.unlock();
      std::exception_ptr error;
      try {
        piece(number);
      } catch (...) {
        error = std::current_exception();
      }
      lock.lock();
      if (error) errors_.emplace(number, error);
      if (++done_ == count_) changed_.notify_all();
    }
  }

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  const Piece* piece_ = nullptr;
  size_t next_ = 0, done_ = 0, count_ = 0;
  std::map<size_t, std::exception_ptr> errors_;  // what pieces threw, by their numbers
  bool closed_ = false;
};

inline DoPieces pieces_of(SharedWork& work) {
  return [&work](size_t count, const Piece& piece) { work.do_all(count, piece); };
}

}  // namespace lockstep
