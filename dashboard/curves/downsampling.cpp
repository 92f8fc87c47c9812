#include "dashboard/curves/downsampling.h"

#include <algorithm>
#include <cmath>

namespace lockstep::dashboard {
namespace {

// The extremes of one pixel column.
class PixelColumn {
 public:
  void add(size_t point, double y) {
    if (!any_) any_ = point;
    if (std::isnan(y)) return;
    if (!low_ || y < low_y_) {
      low_ = point;
      low_y_ = y;
    }
    if (!high_ || y > high_y_) {
      high_ = point;
      high_y_ = y;
    }
  }
  void finish(std::vector<size_t>& points) {
    if (low_) {
      points.push_back(std::min(*low_, *high_));
      if (*low_ != *high_) points.push_back(std::max(*low_, *high_));
    } else if (any_) {
      points.push_back(*any_);
    }
    *this = {};
  }

 private:
  std::optional<size_t> any_, low_, high_;
  double low_y_ = 0, high_y_ = 0;
};

}  // namespace

Downsampling downsample(std::span<const double> x, std::span<const double> y,
                        const PointRange& range) {
  const auto begin = range.from ? std::ranges::lower_bound(x, *range.from) : x.begin();
  const auto end = range.to ? std::upper_bound(begin, x.end(), *range.to) : x.end();
  const auto first = static_cast<size_t>(begin - x.begin());
  const auto last = static_cast<size_t>(std::max(begin, end) - x.begin());
  Downsampling result{.in_range = last - first};
  auto& points = result.points;
  if (first > 0) points.push_back(first - 1);
  result.raw = result.in_range <= 2 * range.columns;
  if (result.raw) {
    for (size_t i = first; i < last; ++i) points.push_back(i);
  } else {
    const auto left = x[first], width = (x[last - 1] - left) / static_cast<double>(range.columns);
    PixelColumn column;
    size_t current = 0;
    points.push_back(first);
    for (size_t i = first; i < last; ++i) {
      const auto position = width > 0 ? (x[i] - left) / width : 0.0;
      const auto index = std::min(static_cast<size_t>(position), range.columns - 1);
      if (index != current) column.finish(points);
      current = index;
      column.add(i, y[i]);
    }
    column.finish(points);
    points.push_back(last - 1);
    std::ranges::sort(points);
    points.erase(std::unique(points.begin(), points.end()), points.end());
  }
  if (last < x.size()) points.push_back(last);
  return result;
}

}  // namespace lockstep::dashboard
