// Whether a group that failed is started again, and after which pause. A group that fails again and
// again without getting on is not started in a hot loop: the pause doubles up to a minute. Pure:
// the caller tells the time.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>

namespace lockstep::launch {

struct RestartOptions {
  int most = 0;
  // Only restarts within this time count towards the most; 0: all do.
  std::chrono::milliseconds window{0};
  // Before the second restart in a row that did not get on; 0: none is ever delayed.
  std::chrono::milliseconds delay = std::chrono::seconds(1);
};

class RestartPolicy {
 public:
  using Clock = std::chrono::steady_clock;

  explicit RestartPolicy(RestartOptions options) : options_(options) {}

  void begin_attempt(Clock::time_point now) { began_ = now; }
  // The attempt has failed. `step`: of the training, where it is known, else 0. Returns how long to
  // wait before the next one; nullopt: there is none.
  std::optional<std::chrono::milliseconds> restart(Clock::time_point now, int64_t step);
  void forbid() { options_.most = 0; }

  int most() const { return options_.most; }
  int count() const { return count_; }  // restarts so far
  // Of the last one, for a person: "restart 2 of 5 in 4 s".
  std::string describe(std::chrono::milliseconds delay) const;

 private:
  bool got_on(Clock::time_point now, int64_t step);

  RestartOptions options_;
  Clock::time_point began_{};
  std::deque<Clock::time_point> recent_;  // restarts within the window
  int count_ = 0;
  int failures_ = 0;  // in a row that did not get on, after the first one
  int64_t furthest_step_ = 0;
};

}  // namespace lockstep::launch
