#include "dashboard/curves/curve_aggregate.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

namespace lockstep::dashboard {
namespace {

constexpr double kNotANumber = std::numeric_limits<double>::quiet_NaN();
constexpr size_t kCellsAtOnce = 128;  // they, and what many curves have there, stay in the cache

// Of one step, or of several steps of a column.
struct BandCell {
  double x = 0;
  double sum = 0, squares = 0;  // squares: of the distances from the step's mean
  double x_sum = 0;
  double p10 = 0, median = 0, p90 = 0;  // of each step, times the step's count
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

// Calls visit(cell, point) for the last point of each of the steps, from `point` on, which becomes
// the first point behind them.
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

double place_of(const AggregatedCurve& curve, catalog::CurveAxis axis, size_t point) {
  if (axis == catalog::CurveAxis::Step) return curve.curve.step[point];
  if (axis == catalog::CurveAxis::Epoch) return curve.curve.epoch[point];
  return curve.curve.time[point] - curve.created;
}

void add_value(BandCell& cell, double value, int curve) {
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

// Linear between the two nearest values. Reorders them.
double quantile(std::vector<double>& values, double part) {
  const auto place = part * static_cast<double>(values.size() - 1);
  const auto lower = values.begin() + static_cast<ptrdiff_t>(place);
  std::ranges::nth_element(values, lower);
  const auto rest = place - std::floor(place);
  if (rest == 0) return *lower;
  const auto upper = *std::min_element(lower + 1, values.end());
  return *lower == upper ? upper : *lower + rest * (upper - *lower);
}

// Fills the cells of some steps; `points`: where the walk through each curve is.
void fill_cells(std::span<BandCell> cells, std::span<const double> steps,
                const std::vector<AggregatedCurve>& curves, catalog::CurveAxis axis,
                std::vector<size_t>& points) {
  auto again = points;
  for (size_t c = 0; c < curves.size(); ++c)
    visit_steps(steps, curves[c].curve, points[c], [&](size_t cell, size_t point) {
      add_value(cells[cell], curves[c].curve.value[point], static_cast<int>(c));
      cells[cell].x_sum += place_of(curves[c], axis, point);
      ++cells[cell].x_count;
    });
  std::vector<double> means;
  std::vector<std::vector<double>> values(cells.size());
  for (const auto& cell : cells) means.push_back(cell.sum / static_cast<double>(cell.count));
  for (size_t c = 0; c < curves.size(); ++c)
    visit_steps(steps, curves[c].curve, again[c], [&](size_t cell, size_t point) {
      const auto value = curves[c].curve.value[point];
      if (std::isnan(value)) return;
      const auto distance = value - means[cell];
      cells[cell].squares += distance * distance;
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

std::vector<BandCell> cells_of(const std::vector<AggregatedCurve>& curves, catalog::CurveAxis axis) {
  const auto steps = all_steps(curves);
  std::vector<BandCell> cells(steps.size());
  std::vector<size_t> points(curves.size());
  for (size_t begin = 0; begin < steps.size(); begin += kCellsAtOnce) {
    const auto count = std::min(kCellsAtOnce, steps.size() - begin);
    fill_cells(std::span(cells).subspan(begin, count), std::span(steps).subspan(begin, count),
               curves, axis, points);
  }
  for (size_t i = 0; i < cells.size(); ++i)
    cells[i].x = axis == catalog::CurveAxis::Step
                     ? steps[i]
                     : cells[i].x_sum / static_cast<double>(cells[i].x_count);
  std::erase_if(cells, [](const BandCell& cell) { return std::isnan(cell.x); });
  if (axis != catalog::CurveAxis::Step) std::ranges::stable_sort(cells, {}, &BandCell::x);
  return cells;
}

void join(BandCell& cell, const BandCell& other) {
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

void append(CurveAggregate& band, const BandCell& cell) {
  const auto count = static_cast<double>(cell.count);
  const bool any = cell.count > 0;
  band.x.push_back(cell.x);
  band.mean.push_back(any ? cell.sum / count : kNotANumber);
  band.min.push_back(any ? cell.low : kNotANumber);
  band.max.push_back(any ? cell.high : kNotANumber);
  band.deviation.push_back(any ? std::sqrt(cell.squares / count) : kNotANumber);
  band.p10.push_back(any ? cell.p10 / count : kNotANumber);
  band.median.push_back(any ? cell.median / count : kNotANumber);
  band.p90.push_back(any ? cell.p90 / count : kNotANumber);
  band.count.push_back(cell.count);
  band.min_curve.push_back(cell.low_curve);
  band.max_curve.push_back(cell.high_curve);
}

void append_columns(CurveAggregate& band, std::span<const BandCell> cells, size_t columns) {
  const auto left = cells.front().x;
  const auto width = (cells.back().x - left) / static_cast<double>(columns);
  const auto column_of = [&](const BandCell& cell) {
    return width > 0 ? std::min(static_cast<size_t>((cell.x - left) / width), columns - 1) : 0;
  };
  for (size_t i = 0; i < cells.size();) {
    const auto column = column_of(cells[i]);
    auto joined = cells[i];
    for (++i; i < cells.size() && column_of(cells[i]) == column; ++i) join(joined, cells[i]);
    append(band, joined);
  }
}

}  // namespace

CurveAggregate make_band(std::vector<AggregatedCurve>& curves, catalog::CurveAxis axis, const PointRange& range) {
  for (auto& curve : curves) order_by(curve.curve, catalog::CurveAxis::Step);
  const auto cells = cells_of(curves, axis);
  CurveAggregate band;
  if (cells.empty()) return band;
  band.empty = false;
  band.first_x = cells.front().x;
  band.last_x = cells.back().x;
  const auto begin =
      range.from ? std::ranges::lower_bound(cells, *range.from, {}, &BandCell::x) : cells.begin();
  const auto end = range.to
                       ? std::ranges::upper_bound(begin, cells.end(), *range.to, {}, &BandCell::x)
                       : cells.end();
  const std::span chosen(begin, std::max(begin, end));
  band.raw = chosen.size() <= range.columns;
  if (begin != cells.begin()) append(band, *(begin - 1));
  if (band.raw)
    for (const auto& cell : chosen) append(band, cell);
  else
    append_columns(band, chosen, range.columns);
  if (end != cells.end() && end >= begin) append(band, *end);
  return band;
}

}  // namespace lockstep::dashboard
