// A parallel loop.
#pragma once

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace lockstep::catalog {

// Calls `work` with 0 to `count` - 1, from at most `max_threads` threads (including the calling
// one), and at most one per core. An exception stops the loop and is rethrown.
template <class Work>
void parallel_for(size_t count, size_t max_threads, const Work& work) {
  std::atomic<size_t> next = 0;
  std::exception_ptr failure;
  std::mutex failure_mutex;  // guards failure
  const auto take_turns = [&] {
    try {
      for (size_t i = next++; i < count; i = next++) work(i);
    } catch (...) {
      const std::lock_guard lock(failure_mutex);
      failure = std::current_exception();
      next = count;
    }
  };
  {
    std::vector<std::jthread> helpers;
    const auto useful = std::min<size_t>(max_threads, std::thread::hardware_concurrency());
    for (size_t i = 1; i < useful; ++i) helpers.emplace_back(take_turns);
    take_turns();
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace lockstep::catalog
