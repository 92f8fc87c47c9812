#include "sweep/tpe.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "sweep/parzen.h"
#include "sweep/random.h"
#include "sweep/ranking.h"

namespace lockstep::sweep {
namespace {

constexpr double kBestShare = 0.1;
constexpr size_t kMaxBest = 25;

using Group = std::vector<const Parameter*>;

// Parameters with the same conditions, in order.
std::vector<Group> groups_of(const Space& space) {
  std::vector<Group> groups;
  const auto same = [](const Parameter& a, const Parameter& b) {
    return std::ranges::equal(a.when, b.when, [](const Condition& x, const Condition& y) {
      return x.key == y.key && x.values == y.values;
    });
  };
  for (const auto& parameter : space.parameters) {
    const auto group = std::ranges::find_if(
        groups, [&](const Group& each) { return same(*each.front(), parameter); });
    if (group == groups.end())
      groups.push_back({&parameter});
    else
      group->push_back(&parameter);
  }
  return groups;
}

// The points of those trials that have all parameters of the group, oldest first.
std::vector<Point> points_of(std::vector<size_t> places, const std::vector<Trial>& trials,
                             const Group& group) {
  std::ranges::sort(places);
  std::vector<Point> points;
  for (const auto place : places) {
    const auto& point = trials[place].parameters;
    if (std::ranges::all_of(group,
                            [&](const Parameter* each) { return point.contains(each->key); }))
      points.push_back(point);
  }
  return points;
}

}  // namespace

Point tpe_point(const SweepFile& file, const std::vector<Trial>& trials, int64_t number) {
  auto best = ranked(file.objective.all, trials);
  const auto share = std::ceil(kBestShare * static_cast<double>(best.size()));
  const auto num_best = std::min(static_cast<size_t>(share), kMaxBest);
  std::vector<size_t> others(best.begin() + static_cast<ptrdiff_t>(num_best), best.end());
  best.resize(num_best);
  for (size_t i = 0; i < trials.size(); ++i)
    if (trials[i].is_open()) others.push_back(i);

  Random random(static_cast<uint64_t>(file.search.seed), static_cast<uint64_t>(number));
  Point point = Json::object();
  for (const auto& group : groups_of(file.space)) {
    if (!file.space.is_active(*group.front(), point)) continue;
    const ParzenDensity good(group, points_of(best, trials, group));
    const ParzenDensity bad(group, points_of(others, trials, group));
    std::optional<double> best_gain;
    std::vector<double> chosen;
    for (int64_t i = 0; i < file.search.candidates; ++i) {
      const auto at = good.draw(random);
      const auto gain = good.log_density(at) - bad.log_density(at);
      if (best_gain && !(gain > *best_gain)) continue;
      best_gain = gain;
      chosen = at;
    }
    good.set(chosen, point);
  }
  return point;
}

}  // namespace lockstep::sweep
