// Decides whether a failed group is restarted, and after which delay. While a group fails
// repeatedly without progress, the delay doubles up to a minute. Pure: the caller passes the time.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>

namespace lockstep::launch {

struct RestartOptions {
  int max_restarts = 0;
  // Only restarts within this time count towards max_restarts; 0: all do.
  std::chrono::milliseconds window{0};
  // Before the second restart in a row without progress; 0: restarts are never delayed.
  std::chrono::milliseconds delay = std::chrono::seconds(1);
};

class RestartPolicy {
 public:
  using Clock = std::chrono::steady_clock;

  explicit RestartPolicy(RestartOptions options) : options_(options) {}

  void begin_attempt(Clock::time_point now) { began_ = now; }
  // The attempt has failed at training step `step` (0: not known). Returns the delay before the
  // next attempt; nullopt: no restart is left.
  std::optional<std::chrono::milliseconds> restart(Clock::time_point now, int64_t step);
  void forbid() { options_.max_restarts = 0; }
  // Continues after `count` restarts by another process, of which none counts within a window.
  void resume(int count);

  int max_restarts() const { return options_.max_restarts; }
  int count() const { return count_; }  // restarts so far
  // Describes the last restart for the user: "restart 2 of 5 in 4 s".
  std::string describe(std::chrono::milliseconds delay) const;

 private:
  bool made_progress(Clock::time_point now, int64_t step);

  RestartOptions options_;
  Clock::time_point began_{};
  std::deque<Clock::time_point> recent_;  // restarts within the window
  int count_ = 0;
  int failures_ = 0;  // in a row without progress, after the first one
  int64_t furthest_step_ = 0;
};

}  // namespace lockstep::launch
