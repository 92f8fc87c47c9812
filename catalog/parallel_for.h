// A parallel loop.
#pragma once

#include <algorithm>
#include <atomic>
#include <exception>
#include <thread>
#include <utility>
#include <vector>

#include "core/system/mutex.h"

namespace lockstep::catalog {

// What one of several threads threw; the last one, if several did.
class ThrownException {
 public:
  void set(std::exception_ptr thrown) {
    const MutexLock lock(mutex_);
    thrown_ = std::move(thrown);
  }
  void rethrow_if_any() {
    const MutexLock lock(mutex_);
    if (thrown_) std::rethrow_exception(thrown_);
  }

 private:
  Mutex mutex_;
  std::exception_ptr thrown_ GUARDED_BY(mutex_);
};

// Calls `work` with 0 to `count` - 1, from at most `max_threads` threads (including the calling
// one), and at most one per core. An exception stops the loop and is rethrown.
template <class Work>
void parallel_for(size_t count, size_t max_threads, const Work& work) {
  std::atomic<size_t> next = 0;
  ThrownException thrown;
  const auto take_turns = [&] {
    try {
      for (size_t i = next++; i < count; i = next++) work(i);
    } catch (...) {
      thrown.set(std::current_exception());
      next = count;
    }
  };
  {
    std::vector<std::jthread> helpers;
    const auto useful = std::min<size_t>(max_threads, std::thread::hardware_concurrency());
    for (size_t i = 1; i < useful; ++i) helpers.emplace_back(take_turns);
    take_turns();
  }
  thrown.rethrow_if_any();
}

}  // namespace lockstep::catalog
