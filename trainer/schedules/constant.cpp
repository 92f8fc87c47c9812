// Constant learning rate, with linear warm-up.
#include "lockstep/schedule.h"

namespace lockstep {
namespace {

struct ConstantConfig {
  int64_t warmup_steps = 0;
};

template <class V>
void fields(V& v, ConstantConfig& c) {
  v("warmup_steps", c.warmup_steps, "steps over which the learning rate rises linearly from 0",
    at_least(0));
}

class Constant final : public Schedule {
 public:
  using Config = ConstantConfig;

  Constant(const Config& config, const ScheduleSpan& span) : warmup_steps_(config.warmup_steps) {
    verify_warmup(warmup_steps_, span);
  }
  double factor(int64_t step) const override { return warmup_factor(step, warmup_steps_); }

 private:
  int64_t warmup_steps_;
};

REGISTER_SCHEDULE("constant", Constant, "constant learning rate");

}  // namespace
}  // namespace lockstep
