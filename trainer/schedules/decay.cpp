// Linear warm-up, then decay from 1 to final_factor: along half a cosine (Loshchilov and Hutter,
// 2017, without restarts), linearly, or as a power of the remaining fraction of the run.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "lockstep/schedule.h"

namespace lockstep::trainer {
namespace {

struct DecayConfig {
  int64_t warmup_steps = 0;
  double final_factor = 0;
};

template <class V>
void fields(V& v, DecayConfig& c) {
  v("warmup_steps", c.warmup_steps, "steps over which the learning rate rises linearly from 0",
    at_least(0));
  v("final_factor", c.final_factor,
    "learning rate that the decay reaches after the last step, as a fraction of optimizer.lr",
    at_least(0), at_most(1));
}

struct PolynomialConfig : DecayConfig {
  double power = 1;
};

template <class V>
void fields(V& v, PolynomialConfig& c) {
  fields(v, static_cast<DecayConfig&>(c));
  v("power", c.power, "power of the remaining fraction of the decay; 1: linear", above(0));
}

class Decay : public Schedule {
 public:
  using Config = DecayConfig;

  Decay(const Config& config, const ScheduleSpan& span)
      : config_(config), decay_steps_(span.total_steps - config.warmup_steps) {
    verify_warmup(config.warmup_steps, span);
  }

  double factor(int64_t step) const override {
    if (step < config_.warmup_steps) return warmup_factor(step, config_.warmup_steps);
    if (decay_steps_ <= 0) return 1;
    const auto progress = std::min(
        1.0, static_cast<double>(step - config_.warmup_steps) / static_cast<double>(decay_steps_));
    return config_.final_factor + (1 - config_.final_factor) * left(progress);
  }

 private:
  // Remaining fraction of the decay: 1 at progress 0, 0 at progress 1.
  virtual double left(double progress) const = 0;

  Config config_;
  int64_t decay_steps_;
};

class Cosine final : public Decay {
 public:
  using Decay::Decay;

 private:
  double left(double progress) const override {
    return 0.5 * (1 + std::cos(std::numbers::pi * progress));
  }
};

class LinearDecay final : public Decay {
 public:
  using Decay::Decay;

 private:
  double left(double progress) const override { return 1 - progress; }
};

class Polynomial final : public Decay {
 public:
  using Config = PolynomialConfig;

  Polynomial(const Config& config, const ScheduleSpan& span)
      : Decay(config, span), power_(config.power) {}

 private:
  double left(double progress) const override { return std::pow(1 - progress, power_); }

  double power_;
};

REGISTER_SCHEDULE("cosine", Cosine, "linear warm-up, then a cosine decay");
REGISTER_SCHEDULE("linear", LinearDecay, "linear warm-up, then a linear decay");
REGISTER_SCHEDULE("polynomial", Polynomial, "linear warm-up, then a polynomial decay");

}  // namespace
}  // namespace lockstep::trainer
