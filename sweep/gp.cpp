#include "sweep/gp.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <set>
#include <utility>

#include "sweep/gaussian_process.h"
#include "sweep/normal.h"
#include "sweep/random.h"
#include "sweep/ranking.h"

namespace lockstep::sweep {
namespace {

constexpr size_t kMaxTrials = 250;
constexpr double kOutlier = 4;        // largest distance to the median, in those of the best
constexpr size_t kNumStarts = 5;      // of hill climbing
constexpr int kClimbSteps = 100;      // per start
constexpr int kNeighborsOfBest = 20;  // candidates near each of the best trials

using Units = std::vector<double>;

// The logarithm of the expected improvement over `best`, in deviations.
double log_improvement(const GaussianProcess::Prediction& at, double best) {
  const auto z = (best - at.mean) / at.deviation;
  const auto log_normal = -0.5 * z * z - 0.5 * std::log(2 * std::numbers::pi);
  if (z < -25) return log_normal - 2 * std::log(-z) + std::log(at.deviation);  // its limit
  const auto below = 0.5 * std::erfc(-z / std::numbers::sqrt2);
  return std::log(std::exp(log_normal) + z * below) + std::log(at.deviation);
}

// The places of the trials to learn from, of those in `order`, best first; keeps the order.
std::vector<size_t> selected(const std::vector<size_t>& order) {
  if (order.size() <= kMaxTrials) return order;
  std::set<size_t> kept(order.begin(), order.begin() + kMaxTrials / 2);
  auto newest = order;
  std::ranges::sort(newest, std::greater());
  for (auto it = newest.begin(); kept.size() < kMaxTrials; ++it) kept.insert(*it);
  std::vector<size_t> result;
  std::ranges::copy_if(order, std::back_inserter(result),
                       [&](size_t place) { return kept.contains(place); });
  return result;
}

// Moved and scaled to mean 0 and variance 1.
void standardize(std::vector<double>& values) {
  const auto count = static_cast<double>(values.size());
  const auto mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
  double squares = 0;
  for (auto& value : values) {
    value -= mean;
    squares += value * value;
  }
  const auto deviation = std::sqrt(squares / count);
  for (auto& value : values) value /= deviation > 0 ? deviation : 1;
}

// Of the trials at `places`, best first: less is better, all finite. The likelihood of a Gaussian process suffers from outliers.
std::vector<double> values_of(const std::vector<Objective>& objectives,
                              const std::vector<Trial>& trials, const std::vector<size_t>& places) {
  const auto count = static_cast<double>(places.size());
  std::vector<double> values;
  if (objectives.size() > 1) {  // normal scores of the order
    for (size_t i = 0; i < places.size(); ++i)
      values.push_back(normal_quantile((static_cast<double>(i) + 0.5) / count, -8, 8));
    return values;
  }
  for (const auto place : places) values.push_back(losses_of(objectives, trials[place]).front());
  std::vector<double> sorted;
  std::ranges::copy_if(values, std::back_inserter(sorted),
                       [](double v) { return std::isfinite(v); });
  if (sorted.empty()) return std::vector<double>(values.size(), 0);
  std::ranges::sort(sorted);
  const auto middle = sorted[sorted.size() / 2];
  const auto limit = middle + kOutlier * (middle - sorted.front());
  for (size_t i = 0; i < values.size(); ++i) {
    const bool is_pruned = trials[places[i]].state == TrialState::Pruned;
    values[i] = std::clamp(values[i], is_pruned ? middle : sorted.front(), limit);
  }
  return values;
}

// Standard normal; source: Box and Muller (1958).
double draw_normal(Random& random) {
  const auto radius = std::sqrt(-2 * std::log(1 - random.uniform()));
  return radius * std::cos(2 * std::numbers::pi * random.uniform());
}

// Chooses the point for a process.
class Maximizer {
 public:
  Maximizer(const Space& space, const GaussianProcess& process, double best, Random& random)
      : space_(space), process_(process), best_(best), random_(random) {}

  Point point(int64_t candidates, const std::vector<Units>& best_trials) {
    std::vector<Candidate> starts;
    for (int64_t i = 0; i < candidates; ++i) {
      Units units(space_.parameters.size());
      for (auto& unit : units) unit = random_.uniform();
      starts.push_back(evaluated(units));
    }
    for (const auto& trial : best_trials)
      for (int i = 0; i < kNeighborsOfBest; ++i)
        starts.push_back(evaluated(near(trial, i % 2 ? 0.1 : 0.01)));
    const auto kept = std::min(kNumStarts, starts.size());
    std::ranges::partial_sort(starts, starts.begin() + static_cast<ptrdiff_t>(kept), std::greater(),
                              &Candidate::value);
    starts.resize(kept);
    for (auto& start : starts) climb(start);
    return std::ranges::max_element(starts, {}, &Candidate::value)->point;
  }

 private:
  struct Candidate {
    Point point;
    Units units;  // of the point
    double value = 0;
  };

  Candidate evaluated(const Units& units) const {
    Candidate candidate{.point = space_.at(units)};
    candidate.units = space_.units_of(candidate.point);
    candidate.value = log_improvement(process_.at(candidate.units), best_);
    return candidate;
  }

  // Numbers move by `deviation`, or to a neighboring value if it is less; one of the parameters that
  // are choices may change.
  Units near(Units units, double deviation) {
    for (size_t i = 0; i < units.size(); ++i) {
      const auto& parameter = space_.parameters[i];
      const auto share = 1 / static_cast<double>(units.size());
      if (parameter.is_choice()) {
        if (random_.uniform() < share) units[i] = random_.uniform();
        continue;
      }
      const auto width = parameter.is_integer() ? 0.7 / static_cast<double>(parameter.count()) : 0;
      const auto moved = units[i] + draw_normal(random_) * std::max(deviation, width);
      units[i] = std::clamp(moved, 0.0, 1.0);
    }
    return units;
  }

  // A (1+1) evolution strategy with the one-fifth rule; source: Rechenberg (1973).
  void climb(Candidate& at) {
    double deviation = 0.1;
    for (int i = 0; i < kClimbSteps; ++i) {
      auto next = evaluated(near(at.units, deviation));
      const bool is_better = next.value > at.value;
      deviation *= is_better ? 1.5 : 0.9;
      if (is_better) at = std::move(next);
    }
  }

  const Space& space_;
  const GaussianProcess& process_;
  const double best_;
  Random& random_;
};

}  // namespace

Point gp_point(const SweepFile& file, const std::vector<Trial>& trials, int64_t number) {
  std::vector<Distance> distances;
  for (const auto& parameter : file.space.parameters)
    distances.push_back(parameter.is_choice() ? Distance::Choice : Distance::Number);
  const auto learned = selected(ranked(file.objective.all, trials));
  std::vector<Units> places;
  for (const auto place : learned) places.push_back(file.space.units_of(trials[place].parameters));
  auto values = values_of(file.objective.all, trials, learned);
  standardize(values);
  const auto best = values.front();
  const std::vector<Units> best_trials(places.begin(),
                                       places.begin() + std::min<ptrdiff_t>(5, std::ssize(places)));

  auto process = GaussianProcess::fit(distances, places, values);
  for (const auto& trial : trials) {
    if (!trial.is_open()) continue;
    places.push_back(file.space.units_of(trial.parameters));
    values.push_back(process.at(places.back()).mean);
  }
  if (places.size() > best_trials.size())
    process = GaussianProcess(distances, places, values, process.settings());
  Random random(static_cast<uint64_t>(file.search.seed), static_cast<uint64_t>(number));
  return Maximizer(file.space, process, best, random)
      .point(20 * file.search.candidates, best_trials);
}

}  // namespace lockstep::sweep
