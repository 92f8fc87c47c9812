// Aggregates many curves of one metric: mean, extremes, deviation and quantiles at each step.
#pragma once

#include <cstdint>
#include <vector>

#include "dashboard/curves/curve_order.h"
#include "dashboard/curves/downsampling.h"

namespace lockstep::dashboard {

struct AggregatedCurve {
  catalog::Curve curve;  // with steps, and the values of the axis
  double created = 0;    // of its run, for the time axis
};

// One element per step, or per column of steps.
struct CurveAggregate {
  std::vector<double> x, mean, min, max, deviation;
  std::vector<double> p10, median, p90;   // quantiles, interpolated between neighbors
  std::vector<uint64_t> count;            // of values; 0: all were NaN, and the results are NaN
  std::vector<int> min_curve, max_curve;  // index of the curve with the extreme; -1: none
  bool raw = true;                        // one element per step
  double first_x = 0, last_x = 0;         // of all steps, not only of the range
  bool empty = true;
};

// Curves are aligned by step: each counts once per step, with the last value logged at that step;
// NaN is ignored. `deviation` is the population standard deviation. If the range has more steps
// than columns, the steps of a column are merged: mean over all values; deviation as the root of
// the mean variance of the steps, quantiles as the mean of the quantiles of the steps, both
// weighted by count; x of the first step. x is the step, the mean epoch of the curves at the step,
// or their mean time since `created`. Sorts the curves by step.
CurveAggregate aggregate_curves(std::vector<AggregatedCurve>& curves, catalog::CurveAxis axis,
                                const PointRange& range);

}  // namespace lockstep::dashboard
