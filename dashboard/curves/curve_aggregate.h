// What many curves of one metric have in common: their mean, extremes, deviation and quantiles at
// each step, over all of them.
#pragma once

#include <cstdint>
#include <vector>

#include "dashboard/curves/curve_order.h"
#include "dashboard/curves/downsampling.h"

namespace lockstep::dashboard {

struct AggregatedCurve {
  catalog::Curve curve;  // with steps, and what the axis needs
  double created = 0;    // of its run, for the time axis
};

// One element per step, or per column of steps.
struct CurveAggregate {
  std::vector<double> x, mean, min, max, deviation;
  std::vector<double> p10, median, p90;   // quantiles, interpolated between neighbors
  std::vector<uint64_t> count;            // values; 0: all were NaN, and so are the numbers
  std::vector<int> min_curve, max_curve;  // who has the extreme, by place in the input; -1: nobody
  bool raw = true;
  double first_x = 0, last_x = 0;  // of everything, not only of the range
  bool empty = true;
};

// Aligned by step: a curve counts once per step, with the last value that it logged there; NaN is
// left out. `deviation` is the population's. With more steps in the range than columns, the steps
// of a column are put together: mean over all values, deviation the root of the mean of the steps'
// variances, quantiles the mean of the steps' quantiles, both weighted by their counts; x is that
// of its first step. x: the step; the mean epoch of
// the curves at a step; or their mean time since `created`. Sorts the curves.
CurveAggregate make_band(std::vector<AggregatedCurve>& curves, catalog::CurveAxis axis, const PointRange& range);

}  // namespace lockstep::dashboard
