// What one turn of an event loop waits for: descriptors and a moment. The parts of a loop add
// theirs before each turn. Thread: one.
#pragma once

#include <poll.h>

#include <chrono>
#include <functional>
#include <vector>

namespace lockstep {

class PollSet {
 public:
  using Clock = std::chrono::steady_clock;
  // Gets the events that came. It may change anything but this set.
  using OnReady = std::function<void(short events)>;

  void watch(const pollfd& request, OnReady on_ready);
  // The turn ends no later.
  void wake_at(Clock::time_point moment) { wake_ = std::min(wake_, moment); }

  // Waits, calls what is ready, and is empty afterwards. Ends after at most a second. Throws
  // Environment.
  void wait();

 private:
  std::vector<pollfd> requests_;
  std::vector<OnReady> on_ready_;
  Clock::time_point wake_ = Clock::time_point::max();
};

}  // namespace lockstep
