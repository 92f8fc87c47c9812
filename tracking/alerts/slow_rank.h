// Decides which rank is slow, from the step times of all ranks in a record
// (trainer/loop/step_times.h): for the alert `slow_rank` and for `distributed.slow_ranks`.
#pragma once

#include <cstdint>
#include <optional>

namespace lockstep::tracking {

// Seconds per step since the last record.
struct RankTimes {
  int64_t step = 0;
  int slowest = 0;                 // the rank that itself takes longest
  double seconds = 0, others = 0;  // its time, and the median of the other ranks
};

// One rank is slow if it has been the slowest in at least five records in a row, for a stated time,
// and took more than `factor` times as long as the median of the others, and 10 ms longer, in each.
class SlowRank {
 public:
  SlowRank(double factor, double for_s) : factor_(factor), for_s_(for_s) {}

  // Records of the same step count once.
  void note(const RankTimes& times);
  void advance(double seconds);
  // The last record of the rank that is slow; nullopt: none is.
  std::optional<RankTimes> find() const;

 private:
  double factor_, for_s_;
  std::optional<RankTimes> last_;  // of a rank that may be slow
  int num_records_ = 0;
  double lasted_s_ = 0;
};

}  // namespace lockstep::tracking
