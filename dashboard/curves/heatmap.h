// One metric of many ranks over the steps, as a grid.
#pragma once

#include <optional>
#include <vector>

#include "catalog/index/log_index.h"

namespace lockstep::dashboard {

struct Heatmap {
  double from = 0, to = 0;                     // steps
  std::vector<double> edges;                   // columns + 1
  std::vector<std::vector<double>> mean, max;  // per curve and column; NaN where there is no value
  double smallest = 0, largest = 0;            // of `mean`
};

struct HeatmapRange {
  std::optional<double> from, to;  // steps, both inclusive
  size_t columns = 300;
};

// `curves` have steps. No more columns than there are steps between the first and the last, nor so
// many that what is recorded every so many steps would have gaps. Without a value in the range: no
// columns.
Heatmap make_heatmap(const std::vector<catalog::Curve>& curves, const HeatmapRange& range);

}  // namespace lockstep::dashboard
