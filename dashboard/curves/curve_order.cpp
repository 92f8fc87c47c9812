#include "dashboard/curves/curve_order.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace lockstep::dashboard {

const std::vector<double>& axis_of(const catalog::Curve& curve, catalog::CurveAxis axis) {
  return axis == catalog::CurveAxis::Step    ? curve.step
         : axis == catalog::CurveAxis::Epoch ? curve.epoch
                                             : curve.time;
}

catalog::CurveParts parts_for(catalog::CurveAxis axis) {
  return {.step = axis == catalog::CurveAxis::Step,
          .time = axis == catalog::CurveAxis::Time,
          .epoch = axis == catalog::CurveAxis::Epoch};
}

void order_by(catalog::Curve& curve, catalog::CurveAxis axis) {
  const auto& x = axis_of(curve, axis);
  const auto has_nan = std::ranges::any_of(x, [](double value) { return std::isnan(value); });
  if (!has_nan && std::ranges::is_sorted(x)) return;
  std::vector<size_t> order(x.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::erase_if(order, [&](size_t i) { return std::isnan(x[i]); });
  std::ranges::stable_sort(order, {}, [&](size_t i) { return x[i]; });
  catalog::Curve sorted;
  const auto copy = [&](const std::vector<double>& from, std::vector<double>& to) {
    if (from.empty()) return;
    to.reserve(order.size());
    for (const auto i : order) to.push_back(from[i]);
  };
  copy(curve.step, sorted.step);
  copy(curve.time, sorted.time);
  copy(curve.epoch, sorted.epoch);
  copy(curve.value, sorted.value);
  copy(curve.smooth, sorted.smooth);
  curve = std::move(sorted);
}

void add_smooth(catalog::Curve& curve, double weight) {
  double sum = 0, mass = 0;
  curve.smooth.clear();
  curve.smooth.reserve(curve.value.size());
  for (const auto value : curve.value) {
    if (!std::isfinite(value)) {
      curve.smooth.push_back(value);
      continue;
    }
    sum = sum * weight + value * (1 - weight);
    mass = mass * weight + (1 - weight);
    curve.smooth.push_back(sum / mass);
  }
}

}  // namespace lockstep::dashboard
