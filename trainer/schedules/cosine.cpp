// Linear warm-up, then half a cosine from 1 down to final_factor (Loshchilov and Hutter, 2017,
// without restarts).
#include <cmath>
#include <numbers>

#include "trainer/schedule.h"

namespace lockstep {
namespace {

struct CosineConfig {
  int64_t warmup_steps = 0;
  double final_factor = 0;
};

template <class V>
void fields(V& v, CosineConfig& c) {
  v("warmup_steps", c.warmup_steps, "steps in which the learning rate rises linearly from 0",
    at_least(0));
  v("final_factor", c.final_factor, "the last step's learning rate, as a part of the optimizer's",
    at_least(0), at_most(1));
}

class Cosine final : public Schedule {
 public:
  using Config = CosineConfig;

  Cosine(const Config& config, const ScheduleSpan& span)
      : config_(config), total_steps_(span.total_steps) {
    verify_warmup(config.warmup_steps, span);
  }

  double factor(int64_t step) const override {
    if (step < config_.warmup_steps) return warmup_factor(step, config_.warmup_steps);
    const auto decay_steps = total_steps_ - config_.warmup_steps;
    if (decay_steps <= 0) return 1;
    const auto progress = std::min(
        1.0, static_cast<double>(step - config_.warmup_steps) / static_cast<double>(decay_steps));
    return config_.final_factor +
           (1 - config_.final_factor) * 0.5 * (1 + std::cos(std::numbers::pi * progress));
  }

 private:
  Config config_;
  int64_t total_steps_;
};

REGISTER_SCHEDULE("cosine", Cosine, "linear warm-up, then a cosine decay");

}  // namespace
}  // namespace lockstep
