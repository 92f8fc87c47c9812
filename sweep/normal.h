// The standard normal distribution.
#pragma once

#include <cmath>
#include <numbers>

namespace lockstep::sweep {

// The share of values below `z`.
inline double normal_below(double z) { return 0.5 * std::erfc(-z / std::numbers::sqrt2); }

// The inverse of normal_below() within [from, to], by bisection: exact to the last digits and never
// out of range.
inline double normal_quantile(double share, double from, double to) {
  for (int i = 0; i < 60; ++i) {
    const auto middle = (from + to) / 2;
    (normal_below(middle) < share ? from : to) = middle;
  }
  return (from + to) / 2;
}

}  // namespace lockstep::sweep
