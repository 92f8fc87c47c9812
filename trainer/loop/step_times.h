// Time breakdown of a step, on this rank and over all ranks: which rank is slow, in which phase.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/system/progress_page.h"
#include "tracking/alerts/slow_rank.h"

namespace lockstep::trainer {

// Seconds per step, means over the steps since the last take().
struct StepTimes {
  double data_wait = 0, forward = 0, backward = 0;
  double communication = 0;  // exposed wait for gradients, not overlapped with computation
  double optimizer = 0;
  double whole = 0;  // the whole step, including the parts above

  // Time caused by the rank itself.
  double own() const { return data_wait + forward + backward + optimizer; }
};

// Metrics of one rank: "rank/step_time_s", which is own(), and its parts, "rank/data_wait_s", ...
std::vector<std::pair<std::string, double>> rank_step_times(const StepTimes& own);

// Publishes the phases of one rank and accumulates their time.
class StepClock {
 public:
  explicit StepClock(ProgressPage& progress) : progress_(progress) {}

  // Ends the previous phase and begins `phase`.
  void enter(Phase phase);
  // Attributes `waited` of the current backward phase to communication.
  void add_communication(std::chrono::duration<double> waited) { communication_ += waited; }
  void end_step(int64_t step, int64_t total_steps);
  // Adds the steps that `other` has counted since its last take().
  void continue_from(const StepClock& other);
  // Means since the last call.
  StepTimes take();

 private:
  using Seconds = std::chrono::duration<double>;
  ProgressPage& progress_;
  Phase phase_ = Phase::Building;
  std::chrono::steady_clock::time_point since_ = std::chrono::steady_clock::now();
  std::array<Seconds, 16> spent_{};
  Seconds communication_{0};
  int64_t steps_ = 0;
};

struct StepTimesOfRanks {
  std::vector<std::pair<std::string, double>> metrics;
  std::optional<tracking::RankTimes> ranks;  // nullopt: there is one
};

// The parts above as numbers, to be gathered from all ranks.
std::vector<double> as_row(const StepTimes& times);

// Of the rows of all ranks, after `step`: "time/step/min", ".../median", ".../max" and the same for each part, in seconds;
// "time/slowest_rank", the rank whose own parts take longest, "time/slowest_rank_s", their seconds,
// and "time/other_ranks_s", the median of those of the other ranks. With one rank: "time/step", ...
StepTimesOfRanks compare_step_times(const std::vector<std::vector<double>>& rows, int64_t step);

}  // namespace lockstep::trainer
