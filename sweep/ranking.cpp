#include "sweep/ranking.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace lockstep::sweep {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

using Losses = std::vector<double>;

bool dominates(const Losses& a, const Losses& b) {
  bool is_better = false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] > b[i]) return false;
    is_better |= a[i] < b[i];
  }
  return is_better;
}

// The fronts of `losses`: each is a list of places.
std::vector<std::vector<size_t>> fronts_of(const std::vector<Losses>& losses) {
  std::vector<std::vector<size_t>> fronts;
  std::vector<size_t> rest(losses.size());
  for (size_t i = 0; i < rest.size(); ++i) rest[i] = i;
  while (!rest.empty()) {
    std::vector<size_t> front, others;
    for (const auto i : rest)
      (std::ranges::none_of(rest, [&](size_t j) { return dominates(losses[j], losses[i]); })
           ? front
           : others)
          .push_back(i);
    fronts.push_back(front);
    rest = others;
  }
  return fronts;
}

// Most distant from its neighbors first.
void sort_by_crowding(const std::vector<Losses>& losses, std::vector<size_t>& front) {
  std::vector<double> distance(losses.size(), 0);
  for (size_t k = 0; k < losses.front().size(); ++k) {
    std::ranges::stable_sort(front, {}, [&](size_t i) { return losses[i][k]; });
    const auto range = losses[front.back()][k] - losses[front.front()][k];
    distance[front.front()] = distance[front.back()] = kInfinity;
    for (size_t i = 1; i + 1 < front.size(); ++i)
      if (range > 0 && std::isfinite(range))
        distance[front[i]] += (losses[front[i + 1]][k] - losses[front[i - 1]][k]) / range;
  }
  std::ranges::sort(front);
  std::ranges::stable_sort(front, std::greater(), [&](size_t i) { return distance[i]; });
}

std::vector<size_t> ranked_by_one(const Objective& objective, const std::vector<Trial>& trials,
                                  std::vector<size_t> places) {
  const auto key = [&](size_t i) {
    const auto& trial = trials[i];
    const bool is_pruned = trial.state == TrialState::Pruned;
    const auto last = trial.values.empty() ? std::nan("") : trial.values.front();
    return std::tuple(is_pruned, is_pruned ? -static_cast<int64_t>(trial.evaluations.size()) : 0,
                      objective.loss(last));
  };
  std::ranges::stable_sort(places, {}, key);
  return places;
}

}  // namespace

Losses losses_of(const std::vector<Objective>& objectives, const Trial& trial) {
  Losses losses(objectives.size(), kInfinity);
  for (size_t i = 0; i < losses.size() && i < trial.values.size(); ++i)
    losses[i] = objectives[i].loss(trial.values[i]);
  return losses;
}

std::vector<Trial> best_of(const std::vector<Objective>& objectives,
                           const std::vector<Trial>& trials) {
  std::vector<Losses> losses;
  std::vector<const Trial*> finished;
  for (const auto& trial : trials) {
    if (trial.state != TrialState::Finished) continue;
    const auto all = losses_of(objectives, trial);
    if (!std::ranges::all_of(all, [](double loss) { return std::isfinite(loss); })) continue;
    losses.push_back(all);
    finished.push_back(&trial);
  }
  std::vector<Trial> best;
  if (finished.empty()) return best;
  const auto fronts = fronts_of(losses);
  for (const auto i : fronts.front()) best.push_back(*finished[i]);
  if (objectives.size() == 1) best.resize(1);
  return best;
}

std::vector<size_t> ranked(const std::vector<Objective>& objectives,
                           const std::vector<Trial>& trials) {
  std::vector<size_t> places;
  for (size_t i = 0; i < trials.size(); ++i)
    if (trials[i].counts()) places.push_back(i);
  if (places.empty()) return places;
  if (objectives.size() == 1) return ranked_by_one(objectives.front(), trials, places);
  std::vector<Losses> losses;
  for (const auto i : places) losses.push_back(losses_of(objectives, trials[i]));
  std::vector<size_t> order;
  auto fronts = fronts_of(losses);
  for (auto& front : fronts) {
    sort_by_crowding(losses, front);
    for (const auto i : front) order.push_back(places[i]);
  }
  return order;
}

}  // namespace lockstep::sweep
