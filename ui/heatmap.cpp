#include "ui/heatmap.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace lockstep {
namespace {

bool is_shown(const Curve& curve, size_t i, const HeatmapRange& range) {
  return (!range.from || curve.step[i] >= *range.from) && (!range.to || curve.step[i] <= *range.to);
}

}  // namespace

Heatmap make_heatmap(const std::vector<Curve>& curves, const HeatmapRange& range) {
  constexpr double kNothing = std::numeric_limits<double>::quiet_NaN();
  auto first = std::numeric_limits<double>::infinity(), last = -first;
  double most_points = 1;  // of one rank: more columns than that would leave gaps between them
  for (const auto& curve : curves) {
    double points = 0;
    for (size_t i = 0; i < curve.step.size(); ++i)
      if (is_shown(curve, i, range)) {
        first = std::min(first, curve.step[i]);
        last = std::max(last, curve.step[i]);
        ++points;
      }
    most_points = std::max(most_points, points);
  }
  Heatmap map;
  map.mean.resize(curves.size());
  map.max.resize(curves.size());
  if (first > last) return map;
  map.from = first;
  map.to = last;
  const auto num_steps = last - first + 1;
  const auto columns = std::max<size_t>(
      1,
      static_cast<size_t>(std::min({static_cast<double>(range.columns), num_steps, most_points})));
  const auto width = num_steps / static_cast<double>(columns);
  for (size_t i = 0; i <= columns; ++i) map.edges.push_back(first + static_cast<double>(i) * width);
  map.smallest = std::numeric_limits<double>::infinity();
  map.largest = -map.smallest;
  for (size_t c = 0; c < curves.size(); ++c) {
    std::vector<double> sum(columns, 0), most(columns, kNothing);
    std::vector<size_t> count(columns, 0);
    for (size_t i = 0; i < curves[c].step.size(); ++i) {
      const auto value = curves[c].value[i];
      if (std::isnan(value) || !is_shown(curves[c], i, range)) continue;
      const auto column =
          std::min(columns - 1, static_cast<size_t>((curves[c].step[i] - first) / width));
      sum[column] += value;
      most[column] = count[column] == 0 ? value : std::max(most[column], value);
      ++count[column];
    }
    for (size_t i = 0; i < columns; ++i) {
      map.mean[c].push_back(count[i] > 0 ? sum[i] / static_cast<double>(count[i]) : kNothing);
      if (count[i] == 0) continue;
      map.smallest = std::min(map.smallest, map.mean[c][i]);
      map.largest = std::max(map.largest, map.mean[c][i]);
    }
    map.max[c] = std::move(most);
  }
  return map;
}

}  // namespace lockstep
