// Multiplies the learning rate by a factor after each epoch or step, like
// torch.optim.lr_scheduler.ExponentialLR, with linear warm-up.
#include <cmath>

#include "lockstep/schedule.h"

namespace lockstep::trainer {
namespace {

enum class Per { Epoch, Step };
constexpr auto choices(Per) { return std::array{"epoch", "step"}; }

struct ExponentialConfig {
  double gamma = 0.95;
  Per per = Per::Epoch;
  int64_t warmup_steps = 0;
};

template <class V>
void fields(V& v, ExponentialConfig& c) {
  v("gamma", c.gamma, "factor of the learning rate", above(0), at_most(1));
  v("per", c.per, "after what it is multiplied");
  v("warmup_steps", c.warmup_steps, "steps over which the learning rate rises linearly from 0",
    at_least(0));
}

class Exponential final : public Schedule {
 public:
  using Config = ExponentialConfig;

  Exponential(const Config& config, const ScheduleSpan& span) : config_(config), span_(span) {
    verify_warmup(config.warmup_steps, span);
  }

  double factor(int64_t step) const override {
    const auto count = config_.per == Per::Step ? step : span_.epoch_of(step);
    return warmup_factor(step, config_.warmup_steps) *
           std::pow(config_.gamma, static_cast<double>(count));
  }

 private:
  Config config_;
  ScheduleSpan span_;
};

REGISTER_SCHEDULE("exponential", Exponential, "multiplied by a factor after each epoch or step");

}  // namespace
}  // namespace lockstep::trainer
