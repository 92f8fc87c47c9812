// Min/max downsampling of a curve: the smallest and the largest value of each pixel column, so that
// the plot looks like one of all points. Points are selected, never interpolated.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace lockstep::dashboard {

struct PointRange {
  std::optional<double> from, to;  // in units of x, both inclusive
  size_t columns = 1000;           // pixel columns, at least 1
};

struct Downsampling {
  std::vector<size_t> points;  // ascending
  size_t in_range = 0;         // points within the range
  bool raw = true;             // all of them were selected
};

// `x` is sorted, without NaN; `y` has the same size. Selects all points if the range has at most
// twice as many as columns. Otherwise selects the first and the last point of the range and, of
// each column, the smallest and the largest, or one NaN if it has no other values. In both cases
// also selects one point on each side of the range, if there is one. Time: linear in the size of
// the range.
Downsampling downsample(std::span<const double> x, std::span<const double> y,
                        const PointRange& range);

}  // namespace lockstep::dashboard
