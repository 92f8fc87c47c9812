#include "dashboard/curves/heatmap.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace lockstep::dashboard {
namespace {

constexpr double kEmptyCell = std::numeric_limits<double>::quiet_NaN();

bool is_in_range(const catalog::Curve& curve, size_t i, const HeatmapRange& range) {
  return (!range.from || curve.step[i] >= *range.from) && (!range.to || curve.step[i] <= *range.to);
}

// The median distance in steps between the records of a curve: narrower columns would leave gaps.
double median_gap(const catalog::Curve& curve, const HeatmapRange& range) {
  std::vector<double> steps, gaps;
  for (size_t i = 0; i < curve.step.size(); ++i)
    if (is_in_range(curve, i, range)) steps.push_back(curve.step[i]);
  std::ranges::sort(steps);
  for (size_t i = 1; i < steps.size(); ++i)
    if (steps[i] > steps[i - 1]) gaps.push_back(steps[i] - steps[i - 1]);
  if (gaps.empty()) return std::numeric_limits<double>::infinity();
  const auto middle = gaps.begin() + static_cast<std::ptrdiff_t>(gaps.size() / 2);
  std::ranges::nth_element(gaps, middle);
  return *middle;
}

// Appends the row of a curve.
void add_row(Heatmap& map, const catalog::Curve& curve, const HeatmapRange& range) {
  const auto columns = map.edges.size() - 1;
  const auto width = (map.to - map.from + 1) / static_cast<double>(columns);
  std::vector<double> sum(columns, 0), mean(columns, kEmptyCell), max(columns, kEmptyCell);
  std::vector<size_t> count(columns, 0);
  for (size_t i = 0; i < curve.step.size(); ++i) {
    const auto value = curve.value[i];
    if (std::isnan(value) || !is_in_range(curve, i, range)) continue;
    const auto column =
        std::min(columns - 1, static_cast<size_t>((curve.step[i] - map.from) / width));
    sum[column] += value;
    max[column] = count[column] == 0 ? value : std::max(max[column], value);
    ++count[column];
  }
  for (size_t i = 0; i < columns; ++i) {
    if (count[i] == 0) continue;
    mean[i] = sum[i] / static_cast<double>(count[i]);
    map.smallest = std::min(map.smallest, mean[i]);
    map.largest = std::max(map.largest, mean[i]);
  }
  map.mean.push_back(std::move(mean));
  map.max.push_back(std::move(max));
}

}  // namespace

Heatmap make_heatmap(const std::vector<catalog::Curve>& curves, const HeatmapRange& range) {
  auto first = std::numeric_limits<double>::infinity(), last = -first;
  auto gap = first;
  for (const auto& curve : curves) {
    for (size_t i = 0; i < curve.step.size(); ++i)
      if (is_in_range(curve, i, range)) {
        first = std::min(first, curve.step[i]);
        last = std::max(last, curve.step[i]);
      }
    gap = std::min(gap, median_gap(curve, range));
  }
  Heatmap map;
  if (first > last) {
    map.mean.resize(curves.size());
    map.max.resize(curves.size());
    return map;
  }
  map.from = first;
  map.to = last;
  const auto num_steps = last - first + 1;
  const auto columns = std::max<size_t>(
      1, static_cast<size_t>(std::min(static_cast<double>(range.columns), num_steps / gap)));
  const auto width = num_steps / static_cast<double>(columns);
  for (size_t i = 0; i <= columns; ++i) map.edges.push_back(first + static_cast<double>(i) * width);
  map.smallest = std::numeric_limits<double>::infinity();
  map.largest = -map.smallest;
  for (const auto& curve : curves) add_row(map, curve, range);
  return map;
}

}  // namespace lockstep::dashboard
