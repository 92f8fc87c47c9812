// One cycle (Smith and Topin, 2018), with the values of torch.optim.lr_scheduler.OneCycleLR; the
// momentum is constant.
#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "lockstep/schedule.h"

namespace lockstep::trainer {
namespace {

enum class Anneal { Cosine, Linear };
constexpr auto choices(Anneal) { return std::array{"cosine", "linear"}; }

struct OneCycleConfig {
  double rise = 0.3;
  Anneal anneal = Anneal::Cosine;
  double div_factor = 25;
  double final_div_factor = 1e4;
  bool three_phase = false;
};

template <class V>
void fields(V& v, OneCycleConfig& c) {
  v("rise", c.rise, "fraction of the run in which the learning rate rises to optimizer.lr",
    above(0), below(1));
  v("anneal", c.anneal, "shape of rise and fall");
  v("div_factor", c.div_factor, "optimizer.lr over the first learning rate", at_least(1));
  v("final_div_factor", c.final_div_factor, "the first learning rate over the last", at_least(1));
  v("three_phase", c.three_phase,
    "fall to the first learning rate as fast as it rose, then to the last");
}

class OneCycle final : public Schedule {
 public:
  using Config = OneCycleConfig;

  OneCycle(const Config& config, const ScheduleSpan& span) : anneal_(config.anneal) {
    const auto total = static_cast<double>(span.total_steps);
    const auto first = 1 / config.div_factor, last = first / config.final_div_factor;
    phases_.push_back({config.rise * total - 1, first, 1});
    if (config.three_phase) phases_.push_back({2 * config.rise * total - 2, 1, first});
    phases_.push_back({total - 1, phases_.back().to, last});
  }

  double factor(int64_t step) const override {
    const auto now = static_cast<double>(step);
    double begin = 0;
    for (const auto& phase : phases_) {
      if (now <= phase.end || &phase == &phases_.back()) {
        const auto length = phase.end - begin;
        const auto progress = length > 0 ? std::min(1.0, (now - begin) / length) : 1.0;
        return between(phase, progress);
      }
      begin = phase.end;
    }
    return 1;
  }

 private:
  struct Phase {
    double end, from, to;  // `end`: its last step
  };

  double between(const Phase& phase, double progress) const {
    if (anneal_ == Anneal::Linear) return (phase.to - phase.from) * progress + phase.from;
    return phase.to + (phase.from - phase.to) / 2 * (std::cos(std::numbers::pi * progress) + 1);
  }

  Anneal anneal_;
  std::vector<Phase> phases_;
};

REGISTER_SCHEDULE("one_cycle", OneCycle,
                  "rises to optimizer.lr and falls to almost 0 (as torch's OneCycleLR)");

}  // namespace
}  // namespace lockstep::trainer
