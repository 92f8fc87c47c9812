// Warm-up, stable, decay (Hu et al., 2024): the learning rate decays only at the end of the run.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "lockstep/error.h"
#include "lockstep/schedule.h"

namespace lockstep::trainer {
namespace {

enum class WsdDecay { Cosine, Linear, OneMinusSqrt };
constexpr auto choices(WsdDecay) { return std::array{"cosine", "linear", "1-sqrt"}; }

struct WsdConfig {
  int64_t warmup_steps = 0;
  int64_t decay_steps = 0;
  WsdDecay decay = WsdDecay::Cosine;
  double final_factor = 0;
};

template <class V>
void fields(V& v, WsdConfig& c) {
  v("warmup_steps", c.warmup_steps, "steps over which the learning rate rises linearly from 0",
    at_least(0));
  v("decay_steps", c.decay_steps, "steps of the decay, at the end of the run", required(),
    at_least(1));
  v("decay", c.decay, "shape of the decay");
  v("final_factor", c.final_factor, "end of the decay, as a fraction of optimizer.lr", at_least(0),
    at_most(1));
}

class Wsd final : public Schedule {
 public:
  using Config = WsdConfig;

  Wsd(const Config& config, const ScheduleSpan& span)
      : config_(config), decay_begin_(span.total_steps - config.decay_steps) {
    if (span.total_steps > 0 && config.warmup_steps + config.decay_steps > span.total_steps)
      throw config_error(fmt::format(
          "schedule.warmup_steps ({}) and schedule.decay_steps ({}) together must be at most the "
          "steps of the run ({})",
          config.warmup_steps, config.decay_steps, span.total_steps));
  }

  double factor(int64_t step) const override {
    if (step < config_.warmup_steps) return warmup_factor(step, config_.warmup_steps);
    if (step < decay_begin_) return 1;
    const auto progress = std::min(
        1.0, static_cast<double>(step - decay_begin_) / static_cast<double>(config_.decay_steps));
    return left(progress) * (1 - config_.final_factor) + config_.final_factor;
  }

 private:
  double left(double progress) const {
    switch (config_.decay) {
      case WsdDecay::Cosine: return 0.5 * (1 + std::cos(std::numbers::pi * progress));
      case WsdDecay::Linear: return 1 - progress;
      case WsdDecay::OneMinusSqrt: return 1 - std::sqrt(progress);
    }
    return 0;
  }

  Config config_;
  int64_t decay_begin_;
};

REGISTER_SCHEDULE("wsd", Wsd, "linear warm-up, a constant learning rate, and a decay at the end");

}  // namespace
}  // namespace lockstep::trainer
