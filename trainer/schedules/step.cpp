// Multiplies the learning rate by a factor at the beginning of given epochs, like
// torch.optim.lr_scheduler.MultiStepLR, with linear warm-up.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "lockstep/error.h"
#include "lockstep/schedule.h"

namespace lockstep::trainer {
namespace {

struct StepScheduleConfig {
  std::vector<int64_t> milestones;
  double gamma = 0.1;
  int64_t warmup_steps = 0;
};

template <class V>
void fields(V& v, StepScheduleConfig& c) {
  v("milestones", c.milestones, "epochs after which the learning rate drops, e.g. [30, 60, 80]",
    required(), at_least(1));
  v("gamma", c.gamma, "factor of the learning rate at each milestone", above(0), at_most(1));
  v("warmup_steps", c.warmup_steps, "steps over which the learning rate rises linearly from 0",
    at_least(0));
}

class StepSchedule final : public Schedule {
 public:
  using Config = StepScheduleConfig;

  StepSchedule(const Config& config, const ScheduleSpan& span) : config_(config), span_(span) {
    const auto& epochs = config.milestones;
    if (epochs.empty() ||
        std::adjacent_find(epochs.begin(), epochs.end(), std::greater_equal<>()) != epochs.end())
      throw config_error("schedule.milestones: expected ascending epochs, e.g. [30, 60, 80]");
    verify_warmup(config.warmup_steps, span);
  }

  double factor(int64_t step) const override {
    const auto epoch = span_.epoch_of(step);
    const auto passed = std::count_if(config_.milestones.begin(), config_.milestones.end(),
                                      [&](int64_t milestone) { return milestone <= epoch; });
    return warmup_factor(step, config_.warmup_steps) *
           std::pow(config_.gamma, static_cast<double>(passed));
  }

 private:
  Config config_;
  ScheduleSpan span_;
};

REGISTER_SCHEDULE("step", StepSchedule, "multiplied by a factor after given epochs");

}  // namespace
}  // namespace lockstep::trainer
