// Names the rank that makes the others wait (distributed.slow_rank).
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "trainer/config/distributed_section.h"
#include "trainer/metrics/step_times.h"

namespace lockstep::trainer {

class SlowRankWatch {
 public:
  using Clock = std::chrono::steady_clock;

  explicit SlowRankWatch(const SlowRankConfig& config) : config_(config) {}

  // `times`: of each rank, means since the last call. Returns a sentence about a rank that has been
  // too slow in all calls for long enough, by at least a twentieth of a step; then nothing until it
  // has been fast again.
  std::optional<std::string> update(const std::vector<StepTimes>& times, Clock::time_point now);

 private:
  SlowRankConfig config_;
  size_t slow_rank_ = 0;  // if since_
  std::optional<Clock::time_point> since_;
  bool is_reported_ = false;
};

}  // namespace lockstep::trainer
