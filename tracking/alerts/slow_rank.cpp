#include "tracking/alerts/slow_rank.h"

namespace lockstep::tracking {
namespace {

constexpr int kMinSlowRecords = 5;
constexpr double kMinSlowness_s = 0.01;

}  // namespace

void SlowRank::note(const RankTimes& times) {
  const bool is_slow =
      times.seconds > factor_ * times.others && times.seconds - times.others >= kMinSlowness_s;
  if (!is_slow || (last_ && last_->slowest != times.slowest)) *this = {factor_, for_s_};
  if (!is_slow || (last_ && last_->step == times.step)) return;
  last_ = times;
  ++num_records_;
}

void SlowRank::advance(double seconds) {
  if (last_) lasted_s_ += seconds;
}

std::optional<RankTimes> SlowRank::find() const {
  return num_records_ >= kMinSlowRecords && lasted_s_ >= for_s_ ? last_ : std::nullopt;
}

}  // namespace lockstep::tracking
