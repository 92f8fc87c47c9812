// Which points of a curve are worth drawing: of each column of pixels the smallest and the largest,
// so that a drawing of them looks like one of all. Points are chosen, never made.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace lockstep::dashboard {

struct PointRange {
  std::optional<double> from, to;  // in units of x, both inclusive
  size_t columns = 1000;           // of pixels, at least 1
};

struct Downsampling {
  std::vector<size_t> points;  // ascending
  size_t in_range = 0;         // points within the range
  bool raw = true;             // all of them were chosen
};

// `x` ascends, without NaN; `y` has as many values. Where the range has at most twice as many
// points as columns, all are chosen. Else of each column the smallest and the largest, and one NaN
// where it has nothing else; and the first and the last of the range. One more point on each side
// of the range comes in any case, where there is one. Time: of the range.
Downsampling downsample(std::span<const double> x, std::span<const double> y,
                          const PointRange& range);

}  // namespace lockstep::dashboard
