#include "trainer/early_stop.h"

#include <fmt/format.h>

#include <cmath>

#include "core/error.h"
#include "core/nearest_name.h"

namespace lockstep {

void EarlyStop::add(const std::map<std::string, double>& evaluation) {
  if (!config_.patience) return;
  const auto found = evaluation.find(config_.metric);
  if (found == evaluation.end()) {
    std::vector<std::string> names;
    for (const auto& [name, value] : evaluation) names.push_back(name);
    throw config_error(fmt::format("train.early_stop.metric: the evaluation has no '{}'{}",
                                   config_.metric, suggest(config_.metric, names)));
  }
  const double value = found->second;
  const auto gain = [&] {
    return config_.mode == "min" ? *state_.best - value : value - *state_.best;
  };
  const bool is_better = std::isfinite(value) && (!state_.best || gain() > config_.min_delta);
  if (is_better) state_.best = value;
  state_.without_improvement = is_better ? 0 : state_.without_improvement + 1;
}

void EarlyStop::restore(const EarlyStopState& state) {
  if (state.metric == config_.metric && state.mode == config_.mode) state_ = state;
}

std::string EarlyStop::reason() const {
  return fmt::format("eval/{} has not improved for {} evaluations (best: {})", config_.metric,
                     state_.without_improvement,
                     state_.best ? fmt::format("{:.6g}", *state_.best) : "none");
}

}  // namespace lockstep
