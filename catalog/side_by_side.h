// Work in pieces, by several threads at once.
#pragma once

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace lockstep::catalog {

// Calls `work` with 0 to `count` - 1, from at most `most_threads` threads, the calling one among
// them, and no more than there are cores. An exception ends it, and is thrown on.
template <class Work>
void side_by_side(size_t count, size_t most_threads, const Work& work) {
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
    const auto useful = std::min<size_t>(most_threads, std::thread::hardware_concurrency());
    for (size_t i = 1; i < useful; ++i) helpers.emplace_back(take_turns);
    take_turns();
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace lockstep::catalog
