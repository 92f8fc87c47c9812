// A heatmap of one metric: ranks by steps.
#pragma once

#include <optional>
#include <vector>

#include "catalog/index/log_index.h"

namespace lockstep::dashboard {

struct Heatmap {
  double from = 0, to = 0;                     // steps
  std::vector<double> edges;                   // columns + 1
  std::vector<std::vector<double>> mean, max;  // per curve and column; NaN: no value
  double smallest = 0, largest = 0;            // of `mean`
};

struct HeatmapRange {
  std::optional<double> from, to;  // steps, both inclusive
  size_t columns = 300;
};

// `curves` must have steps. The number of columns is limited such that a column is not narrower
// than one step or than the median distance between the records of a curve, which would leave gaps.
// No columns if the range has no records.
Heatmap make_heatmap(const std::vector<catalog::Curve>& curves, const HeatmapRange& range);

}  // namespace lockstep::dashboard
