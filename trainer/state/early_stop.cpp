#include "trainer/state/early_stop.h"

#include <fmt/format.h>

#include <cmath>

#include "trainer/state/meter.h"

namespace lockstep::trainer {

void EarlyStop::after_evaluation(HookContext& run, const EvaluationResult& result) {
  if (!config_.patience || result.empty()) return;
  const double value = metric_of(result, config_.metric, "train.early_stop.metric");
  const auto gain = [&] {
    return config_.mode == MetricMode::Min ? *state_.best - value : value - *state_.best;
  };
  const bool is_better = std::isfinite(value) && (!state_.best || gain() > config_.min_delta);
  if (is_better) state_.best = value;
  state_.without_improvement = is_better ? 0 : state_.without_improvement + 1;
  stop_if_due(run);
}

void EarlyStop::restore(const EarlyStopState& state) {
  if (state.metric == config_.metric && state.mode == name_of(config_.mode)) state_ = state;
}

void EarlyStop::stop_if_due(HookContext& run) const {
  if (!config_.patience || state_.without_improvement < *config_.patience) return;
  run.stop = fmt::format("eval/{} has not improved for {} evaluations (best: {})", config_.metric,
                         state_.without_improvement,
                         state_.best ? fmt::format("{:.6g}", *state_.best) : "none");
}

}  // namespace lockstep::trainer
