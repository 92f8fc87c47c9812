// Linear warm-up, then a straight line from 1 down to final_factor.
#include <algorithm>

#include "trainer/schedule.h"

namespace lockstep {
namespace {

struct LinearScheduleConfig {
  int64_t warmup_steps = 0;
  double final_factor = 0;
};

template <class V>
void fields(V& v, LinearScheduleConfig& c) {
  v("warmup_steps", c.warmup_steps, "steps in which the learning rate rises linearly from 0",
    at_least(0));
  v("final_factor", c.final_factor, "where it ends, as a part of the optimizer's", at_least(0),
    at_most(1));
}

class LinearSchedule final : public Schedule {
 public:
  using Config = LinearScheduleConfig;

  LinearSchedule(const Config& config, const ScheduleSpan& span)
      : config_(config), decay_steps_(span.total_steps - config.warmup_steps) {
    verify_warmup(config.warmup_steps, span);
  }

  double factor(int64_t step) const override {
    if (step < config_.warmup_steps) return warmup_factor(step, config_.warmup_steps);
    if (decay_steps_ <= 0) return 1;
    const auto progress = std::min(
        1.0, static_cast<double>(step - config_.warmup_steps) / static_cast<double>(decay_steps_));
    return 1 - (1 - config_.final_factor) * progress;
  }

 private:
  Config config_;
  int64_t decay_steps_;
};

REGISTER_SCHEDULE("linear", LinearSchedule, "linear warm-up, then a linear decay");

}  // namespace
}  // namespace lockstep
