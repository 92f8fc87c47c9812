#include "trainer/state/early_stop.h"

#include <fmt/format.h>

#include <cmath>

#include "trainer/state/meter.h"

namespace lockstep {

void EarlyStop::add(const std::map<std::string, double>& evaluation) {
  if (!config_.patience) return;
  const double value = metric_of(evaluation, config_.metric, "train.early_stop.metric");
  const auto gain = [&] {
    return config_.mode == MetricMode::Min ? *state_.best - value : value - *state_.best;
  };
  const bool is_better = std::isfinite(value) && (!state_.best || gain() > config_.min_delta);
  if (is_better) state_.best = value;
  state_.without_improvement = is_better ? 0 : state_.without_improvement + 1;
}

void EarlyStop::restore(const EarlyStopState& state) {
  if (state.metric == config_.metric && state.mode == name_of(config_.mode)) state_ = state;
}

std::string EarlyStop::reason() const {
  return fmt::format("eval/{} has not improved for {} evaluations (best: {})", config_.metric,
                     state_.without_improvement,
                     state_.best ? fmt::format("{:.6g}", *state_.best) : "none");
}

}  // namespace lockstep
