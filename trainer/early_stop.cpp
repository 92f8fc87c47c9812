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
  const auto gain = [&] { return config_.mode == "min" ? *best_ - value : value - *best_; };
  const bool is_better = !std::isnan(value) && (!best_ || gain() > config_.min_delta);
  if (is_better) best_ = value;
  without_improvement_ = is_better ? 0 : without_improvement_ + 1;
}

std::string EarlyStop::reason() const {
  return fmt::format("eval/{} has not improved for {} evaluations (best: {})", config_.metric,
                     without_improvement_, best_ ? fmt::format("{:.6g}", *best_) : "none");
}

void EarlyStop::restore(std::optional<double> best, int64_t without_improvement) {
  best_ = best;
  without_improvement_ = without_improvement;
}

}  // namespace lockstep
