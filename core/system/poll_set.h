// Waits for file descriptors.
#pragma once

#include <poll.h>

#include <chrono>
#include <functional>
#include <optional>
#include <span>
#include <vector>

namespace lockstep {

// Like poll(), but also continues after signals: returns how many are ready, 0 at the deadline, or -1
// with errno. nullopt: no deadline.
int poll_until(std::span<pollfd> requests,
               std::optional<std::chrono::steady_clock::time_point> deadline);

// The file descriptors and the deadline for which one iteration of an event loop waits. They are
// added again before each iteration. Thread: not thread-safe.
class PollSet {
 public:
  using Clock = std::chrono::steady_clock;
  // Receives the events that occurred. Must not modify this set.
  using OnReady = std::function<void(short events)>;

  void watch(const pollfd& request, OnReady on_ready);
  // wait() returns no later than `time`.
  void wake_at(Clock::time_point time) { wake_ = std::min(wake_, time); }

  // Waits for at most a second, calls the callbacks of ready descriptors and clears the set. Throws
  // Environment.
  void wait();

 private:
  std::vector<pollfd> requests_;
  std::vector<OnReady> on_ready_;
  Clock::time_point wake_ = Clock::time_point::max();
};

}  // namespace lockstep
