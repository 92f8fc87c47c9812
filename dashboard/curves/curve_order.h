// Curves in the order of an axis.
#pragma once

#include "catalog/index/log_index.h"

namespace lockstep::dashboard {

// The axis's values of `curve`, which must have been read.
const std::vector<double>& axis_of(const catalog::Curve& curve, catalog::CurveAxis axis);

// Which parts of a curve have to be read for an axis.
catalog::CurveParts parts_for(catalog::CurveAxis axis);

// Sorts the points by `axis`; those at the same place keep their order. Points whose place is NaN
// are dropped. Nothing to do for most curves.
void order_by(catalog::Curve& curve, catalog::CurveAxis axis);

// Fills `smooth`: the exponential moving average of the values in the order they are in, without
// the bias of its beginning: s = s*weight + v*(1-weight), m = m*weight + (1-weight), s/m. NaN and
// infinities are passed over and stay as they are. 0 < weight < 1.
void add_smooth(catalog::Curve& curve, double weight);

}  // namespace lockstep::dashboard
