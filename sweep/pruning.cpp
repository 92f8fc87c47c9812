#include "sweep/pruning.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace lockstep::sweep {
namespace {

bool is_rung(const PruningConfig& config, int64_t evaluation) {
  auto rung = config.first;
  while (rung < evaluation) rung *= config.factor;
  return rung == evaluation;
}

// The losses that trials had at their evaluation number `evaluation`, which counts from 1.
std::vector<double> losses_at(size_t evaluation, const Objective& objective,
                              const std::vector<Trial>& trials, bool finished_only) {
  std::vector<double> losses;
  for (const auto& trial : trials)
    if (trial.evaluations.size() >= evaluation &&
        (!finished_only || trial.state == TrialState::Finished))
      losses.push_back(objective.loss(trial.evaluations[evaluation - 1].value));
  return losses;
}

std::string why_halved(const PruningConfig& config, const Objective& objective,
                       const std::vector<Evaluation>& own, const std::vector<Trial>& others) {
  if (!is_rung(config, static_cast<int64_t>(own.size()))) return {};
  auto losses = losses_at(own.size(), objective, others, false);
  const auto mine = objective.loss(own.back().value);
  losses.push_back(mine);
  std::ranges::sort(losses);
  const auto kept = std::max<size_t>(1, losses.size() / static_cast<size_t>(config.factor));
  if (mine <= losses[kept - 1]) return {};
  return fmt::format("{} {:.5g} at evaluation {} is not among the best {} of {}", objective.metric,
                     own.back().value, own.size(), kept, losses.size());
}

std::string why_below_median(const PruningConfig& config, const Objective& objective,
                             const std::vector<Evaluation>& own, const std::vector<Trial>& others) {
  if (static_cast<int64_t>(own.size()) < config.first) return {};
  auto losses = losses_at(own.size(), objective, others, true);
  if (losses.empty() || static_cast<int64_t>(losses.size()) < config.startup) return {};
  std::ranges::sort(losses);
  const auto middle = losses.size() / 2;
  const auto median =
      losses.size() % 2 ? losses[middle] : (losses[middle - 1] + losses[middle]) / 2;
  auto best = own.front().value;
  for (const auto& evaluation : own)
    if (objective.loss(evaluation.value) < objective.loss(best)) best = evaluation.value;
  if (objective.loss(best) <= median) return {};
  return fmt::format("{} {:.5g} until evaluation {} is worse than the median {:.5g} of {} trials",
                     objective.metric, best, own.size(),
                     objective.direction == Direction::Minimize ? median : -median, losses.size());
}

}  // namespace

std::string why_pruned(const PruningConfig& config, const Objective& objective,
                       const std::vector<Evaluation>& own, const std::vector<Trial>& others) {
  if (config.name == Pruner::None) return {};
  if (std::isnan(own.back().value))
    return fmt::format("{} is not a number at evaluation {}", objective.metric, own.size());
  return config.name == Pruner::Asha ? why_halved(config, objective, own, others)
                                     : why_below_median(config, objective, own, others);
}

}  // namespace lockstep::sweep
