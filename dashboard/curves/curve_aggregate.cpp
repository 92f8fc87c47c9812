#include "dashboard/curves/curve_aggregate.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

namespace lockstep::dashboard {
namespace {

constexpr double kNotANumber = std::numeric_limits<double>::quiet_NaN();
constexpr size_t kStepsPerBlock = 128;  // these, and the values of many curves, fit in the cache

// One step, or the merged steps of a column.
struct Cell {
  double x = 0;
  double sum = 0, squares = 0;  // squares: of the differences from the mean of the step
  double x_sum = 0;
  double p10 = 0, median = 0, p90 = 0;  // weighted by count
  double low = 0, high = 0;
  int low_curve = -1, high_curve = -1;
  uint64_t count = 0, x_count = 0;
};

std::vector<double> all_steps(const std::vector<AggregatedCurve>& curves) {
  std::vector<double> steps, merged;
  for (const auto& [curve, created] : curves) {
    if (curve.step == steps) continue;
    merged.clear();
    std::ranges::set_union(steps, curve.step, std::back_inserter(merged));
    merged.erase(std::unique(merged.begin(), merged.end()), merged.end());
    steps.swap(merged);
  }
  return steps;
}

// Calls visit(cell, point) for the last point of each of the steps, starting at `point`. Sets
// `point` to the first point after the steps.
template <class Visit>
void visit_steps(std::span<const double> steps, const catalog::Curve& curve, size_t& point,
                 const Visit& visit) {
  size_t cell = 0;
  const auto num_points = curve.step.size();
  for (; point < num_points && curve.step[point] <= steps.back(); ++point) {
    if (point + 1 < num_points && curve.step[point + 1] == curve.step[point]) continue;
    while (steps[cell] < curve.step[point]) ++cell;
    visit(cell, point);
  }
}

double x_of(const AggregatedCurve& curve, catalog::CurveAxis axis, size_t point) {
  if (axis == catalog::CurveAxis::Step) return curve.curve.step[point];
  if (axis == catalog::CurveAxis::Epoch) return curve.curve.epoch[point];
  return curve.curve.time[point] - curve.created;
}

void add_value(Cell& cell, double value, int curve) {
  if (std::isnan(value)) return;
  if (cell.count == 0 || value < cell.low) {
    cell.low = value;
    cell.low_curve = curve;
  }
  if (cell.count == 0 || value > cell.high) {
    cell.high = value;
    cell.high_curve = curve;
  }
  cell.sum += value;
  ++cell.count;
}

// With linear interpolation. Reorders the values.
double quantile(std::vector<double>& values, double q) {
  const auto position = q * static_cast<double>(values.size() - 1);
  const auto lower = values.begin() + static_cast<ptrdiff_t>(position);
  std::ranges::nth_element(values, lower);
  const auto fraction = position - std::floor(position);
  if (fraction == 0) return *lower;
  const auto upper = *std::min_element(lower + 1, values.end());
  return *lower == upper ? upper : *lower + fraction * (upper - *lower);
}

// Fills the cells of a block of steps. `points`: the next point of each curve.
void fill_cells(std::span<Cell> cells, std::span<const double> steps,
                const std::vector<AggregatedCurve>& curves, catalog::CurveAxis axis,
                std::vector<size_t>& points) {
  auto second_pass = points;
  for (size_t c = 0; c < curves.size(); ++c)
    visit_steps(steps, curves[c].curve, points[c], [&](size_t cell, size_t point) {
      add_value(cells[cell], curves[c].curve.value[point], static_cast<int>(c));
      cells[cell].x_sum += x_of(curves[c], axis, point);
      ++cells[cell].x_count;
    });
  std::vector<double> means;
  std::vector<std::vector<double>> values(cells.size());
  for (const auto& cell : cells) means.push_back(cell.sum / static_cast<double>(cell.count));
  for (size_t c = 0; c < curves.size(); ++c)
    visit_steps(steps, curves[c].curve, second_pass[c], [&](size_t cell, size_t point) {
      const auto value = curves[c].curve.value[point];
      if (std::isnan(value)) return;
      const auto difference = value - means[cell];
      cells[cell].squares += difference * difference;
      values[cell].push_back(value);
    });
  for (size_t i = 0; i < cells.size(); ++i) {
    if (values[i].empty()) continue;
    const auto count = static_cast<double>(values[i].size());
    cells[i].p10 = count * quantile(values[i], 0.1);
    cells[i].median = count * quantile(values[i], 0.5);
    cells[i].p90 = count * quantile(values[i], 0.9);
  }
}

std::vector<Cell> cells_of(const std::vector<AggregatedCurve>& curves, catalog::CurveAxis axis) {
  const auto steps = all_steps(curves);
  std::vector<Cell> cells(steps.size());
  std::vector<size_t> points(curves.size());
  for (size_t begin = 0; begin < steps.size(); begin += kStepsPerBlock) {
    const auto count = std::min(kStepsPerBlock, steps.size() - begin);
    fill_cells(std::span(cells).subspan(begin, count), std::span(steps).subspan(begin, count),
               curves, axis, points);
  }
  for (size_t i = 0; i < cells.size(); ++i)
    cells[i].x = axis == catalog::CurveAxis::Step
                     ? steps[i]
                     : cells[i].x_sum / static_cast<double>(cells[i].x_count);
  std::erase_if(cells, [](const Cell& cell) { return std::isnan(cell.x); });
  if (axis != catalog::CurveAxis::Step) std::ranges::stable_sort(cells, {}, &Cell::x);
  return cells;
}

void merge(Cell& cell, const Cell& other) {
  if (other.count == 0) return;
  if (cell.count == 0 || other.low < cell.low) {
    cell.low = other.low;
    cell.low_curve = other.low_curve;
  }
  if (cell.count == 0 || other.high > cell.high) {
    cell.high = other.high;
    cell.high_curve = other.high_curve;
  }
  cell.sum += other.sum;
  cell.squares += other.squares;
  cell.p10 += other.p10;
  cell.median += other.median;
  cell.p90 += other.p90;
  cell.count += other.count;
}

void append(CurveAggregate& aggregate, const Cell& cell) {
  const auto count = static_cast<double>(cell.count);
  const bool any = cell.count > 0;
  aggregate.x.push_back(cell.x);
  aggregate.mean.push_back(any ? cell.sum / count : kNotANumber);
  aggregate.min.push_back(any ? cell.low : kNotANumber);
  aggregate.max.push_back(any ? cell.high : kNotANumber);
  aggregate.deviation.push_back(any ? std::sqrt(cell.squares / count) : kNotANumber);
  aggregate.p10.push_back(any ? cell.p10 / count : kNotANumber);
  aggregate.median.push_back(any ? cell.median / count : kNotANumber);
  aggregate.p90.push_back(any ? cell.p90 / count : kNotANumber);
  aggregate.count.push_back(cell.count);
  aggregate.min_curve.push_back(cell.low_curve);
  aggregate.max_curve.push_back(cell.high_curve);
}

void append_columns(CurveAggregate& aggregate, std::span<const Cell> cells, size_t columns) {
  const auto left = cells.front().x;
  const auto width = (cells.back().x - left) / static_cast<double>(columns);
  const auto column_of = [&](const Cell& cell) {
    return width > 0 ? std::min(static_cast<size_t>((cell.x - left) / width), columns - 1) : 0;
  };
  for (size_t i = 0; i < cells.size();) {
    const auto column = column_of(cells[i]);
    auto merged = cells[i];
    for (++i; i < cells.size() && column_of(cells[i]) == column; ++i) merge(merged, cells[i]);
    append(aggregate, merged);
  }
}

}  // namespace

CurveAggregate aggregate_curves(std::vector<AggregatedCurve>& curves, catalog::CurveAxis axis,
                                const PointRange& range) {
  for (auto& curve : curves) order_by(curve.curve, catalog::CurveAxis::Step);
  const auto cells = cells_of(curves, axis);
  CurveAggregate aggregate;
  if (cells.empty()) return aggregate;
  aggregate.empty = false;
  aggregate.first_x = cells.front().x;
  aggregate.last_x = cells.back().x;
  const auto begin =
      range.from ? std::ranges::lower_bound(cells, *range.from, {}, &Cell::x) : cells.begin();
  const auto end = range.to ? std::ranges::upper_bound(begin, cells.end(), *range.to, {}, &Cell::x)
                            : cells.end();
  const std::span in_range(begin, std::max(begin, end));
  aggregate.raw = in_range.size() <= range.columns;
  if (begin != cells.begin()) append(aggregate, *(begin - 1));
  if (aggregate.raw)
    for (const auto& cell : in_range) append(aggregate, cell);
  else
    append_columns(aggregate, in_range, range.columns);
  if (end != cells.end() && end >= begin) append(aggregate, *end);
  return aggregate;
}

}  // namespace lockstep::dashboard
