// Linear warm-up, then the inverse square root of the step (Vaswani et al., 2017), with the values of
// transformers' get_inverse_sqrt_schedule.
#include <cmath>

#include "lockstep/schedule.h"

namespace lockstep::trainer {
namespace {

struct InverseSqrtConfig {
  int64_t warmup_steps = 0;
  std::optional<int64_t> timescale;
};

template <class V>
void fields(V& v, InverseSqrtConfig& c) {
  v("warmup_steps", c.warmup_steps, "steps over which the learning rate rises linearly from 0",
    at_least(0));
  v("timescale", c.timescale,
    "after three times as many steps, the learning rate is half (empty: warmup_steps, or 10000)",
    at_least(1));
}

class InverseSqrt final : public Schedule {
 public:
  using Config = InverseSqrtConfig;

  InverseSqrt(const Config& config, const ScheduleSpan& span)
      : warmup_steps_(config.warmup_steps),
        timescale_(
            config.timescale.value_or(config.warmup_steps > 0 ? config.warmup_steps : 10'000)) {
    verify_warmup(warmup_steps_, span);
  }

  double factor(int64_t step) const override {
    if (step < warmup_steps_) return warmup_factor(step, warmup_steps_);
    return 1 / std::sqrt(static_cast<double>(step + timescale_ - warmup_steps_) /
                         static_cast<double>(timescale_));
  }

 private:
  int64_t warmup_steps_, timescale_;
};

REGISTER_SCHEDULE("inverse_sqrt", InverseSqrt,
                  "linear warm-up, then the inverse square root of the step");

}  // namespace
}  // namespace lockstep::trainer
