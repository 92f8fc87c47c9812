// The axes of curves: selection, order, smoothing.
#pragma once

#include "catalog/index/log_index.h"

namespace lockstep::dashboard {

// The values of `axis`, which must have been read.
const std::vector<double>& axis_of(const catalog::Curve& curve, catalog::CurveAxis axis);

// The parts of a curve that must be read for an axis.
catalog::CurveParts parts_for(catalog::CurveAxis axis);

// Sorts the points by `axis`, stably, and drops points at NaN. No copy if already sorted.
void order_by(catalog::Curve& curve, catalog::CurveAxis axis);

// Fills `smooth` with the bias-corrected exponential moving average of the values in their current
// order: s = s*weight + v*(1-weight), m = m*weight + (1-weight), s/m. NaN and infinities are
// skipped and copied unchanged. 0 < weight < 1.
void add_smooth(catalog::Curve& curve, double weight);

}  // namespace lockstep::dashboard
