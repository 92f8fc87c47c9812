// Chart data, compared with brute-force computations over every value.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <map>
#include <random>

#include "dashboard/curves/curve_aggregate.h"
#include "dashboard/curves/downsampling.h"
#include "dashboard/curves/heatmap.h"

using namespace lockstep;
using namespace lockstep::dashboard;

namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

std::vector<double> counting(size_t count) {
  std::vector<double> x(count);
  for (size_t i = 0; i < count; ++i) x[i] = static_cast<double>(i);
  return x;
}

bool equal(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

}  // namespace

TEST_CASE("downsampling: a range with few points is complete, with one neighbor on each side") {
  const auto x = counting(100);
  const auto all = downsample(x, x, {.columns = 50});
  CHECK(all.raw);
  CHECK(all.points.size() == 100);
  const auto some = downsample(x, x, {.from = 10, .to = 19.5, .columns = 50});
  CHECK(some.raw);
  CHECK(some.in_range == 10);
  CHECK(some.points.front() == 9);
  CHECK(some.points.back() == 20);
  CHECK(downsample(x, x, {.from = 200}).points == std::vector<size_t>{99});
  CHECK(downsample(x, x, {.from = 50, .to = 40}).in_range == 0);
  CHECK(downsample({}, {}, {}).points.empty());
}

TEST_CASE("downsampling: the minimum and maximum of each column, only from existing points") {
  std::mt19937 random(7);
  std::normal_distribution<double> noise;
  for (const size_t columns : {1, 2, 7, 100}) {
    auto x = counting(5000);
    std::vector<double> y(x.size());
    for (auto& value : y) value = noise(random);
    y[17] = kNan;
    y[4000] = std::numeric_limits<double>::infinity();
    const auto result = downsample(x, y, {.columns = columns});
    CHECK_FALSE(result.raw);
    CHECK(result.points.size() <= 2 * columns + 2);
    CHECK(std::ranges::is_sorted(result.points));
    CHECK(result.points.front() == 0);
    CHECK(result.points.back() == 4999);
    const auto width = 4999.0 / static_cast<double>(columns);
    std::map<size_t, std::pair<double, double>> expected, got;
    const auto add = [&](auto& extremes, size_t i) {
      if (std::isnan(y[i])) return;
      const auto column = std::min(static_cast<size_t>(x[i] / width), columns - 1);
      auto [it, is_new] = extremes.try_emplace(column, y[i], y[i]);
      it->second.first = std::min(it->second.first, y[i]);
      it->second.second = std::max(it->second.second, y[i]);
    };
    for (size_t i = 0; i < x.size(); ++i) add(expected, i);
    for (const auto i : result.points) add(got, i);
    CHECK(expected == got);
  }
}

TEST_CASE("downsampling: a column that contains only NaN yields one NaN") {
  const auto x = counting(1000);
  std::vector<double> y(1000, 1.0);
  for (size_t i = 300; i < 600; ++i) y[i] = kNan;
  const auto result = downsample(x, y, {.columns = 10});
  const auto num_nan =
      std::ranges::count_if(result.points, [&](size_t i) { return std::isnan(y[i]); });
  CHECK(num_nan == 3);  // columns 3, 4 and 5
}

TEST_CASE("downsampling: points at the same x are one column") {
  const std::vector<double> x(1000, 5.0);
  auto y = counting(1000);
  const auto result = downsample(x, y, {.columns = 10});
  CHECK(result.points == std::vector<size_t>{0, 999});
}

TEST_CASE("curves: points out of order are sorted together with their values") {
  catalog::Curve curve{
      .step = {3, 1, 2, 1}, .time = {30, 10, 20, 11}, .value = {0.3, 0.1, 0.2, 0.11}};
  order_by(curve, catalog::CurveAxis::Step);
  CHECK(curve.step == std::vector<double>{1, 1, 2, 3});
  CHECK(curve.time == std::vector<double>{10, 11, 20, 30});
  CHECK(curve.value == std::vector<double>{0.1, 0.11, 0.2, 0.3});
}

TEST_CASE("curves: smoothing skips NaN and is bias-corrected") {
  catalog::Curve curve{.value = {4, 4, kNan, 4, 8}};
  add_smooth(curve, 0.5);
  CHECK(curve.smooth[0] == Approx(4));
  CHECK(curve.smooth[1] == Approx(4));
  CHECK(std::isnan(curve.smooth[2]));
  CHECK(curve.smooth[3] == Approx(4));
  CHECK(curve.smooth[4] == Approx((0.5 * 8 + 0.25 * 4 + 0.125 * 4 + 0.0625 * 4) / 0.9375));
}

namespace {

struct StepValues {
  std::vector<std::pair<double, int>> values;  // value, curve

  double mean() const {
    double sum = 0;
    for (const auto& [value, curve] : values) sum += value;
    return sum / static_cast<double>(values.size());
  }
  double variance() const {
    double sum = 0;
    for (const auto& [value, curve] : values) sum += (value - mean()) * (value - mean());
    return sum / static_cast<double>(values.size());
  }
  double quantile(double q) const {
    auto sorted = values;
    std::ranges::sort(sorted);
    const auto position = q * static_cast<double>(sorted.size() - 1);
    const auto lower = static_cast<size_t>(position);
    const auto upper = std::min(lower + 1, sorted.size() - 1);
    return std::lerp(sorted[lower].first, sorted[upper].first, position - std::floor(position));
  }
};

std::map<double, StepValues> by_step(const std::vector<AggregatedCurve>& curves) {
  std::map<double, StepValues> steps;
  for (size_t c = 0; c < curves.size(); ++c) {
    std::map<double, double> last;
    for (size_t i = 0; i < curves[c].curve.step.size(); ++i)
      last[curves[c].curve.step[i]] = curves[c].curve.value[i];
    for (const auto& [step, value] : last) {
      auto& at = steps[step];
      if (!std::isnan(value)) at.values.emplace_back(value, static_cast<int>(c));
    }
  }
  return steps;
}

std::vector<AggregatedCurve> random_curves(unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> noise;
  std::vector<AggregatedCurve> curves(13);
  for (size_t c = 0; c < curves.size(); ++c)
    for (int step = 0; step < 700; ++step) {
      if (random() % 5 == 0) continue;  // ranks log at different steps
      const int times = random() % 11 == 0 ? 2 : 1;
      for (int i = 0; i < times; ++i) {
        curves[c].curve.step.push_back(step);
        curves[c].curve.value.push_back(random() % 50 == 0 ? kNan : noise(random));
      }
    }
  std::swap(curves[3].curve.step[10], curves[3].curve.step[50]);  // and out of order
  return curves;
}

}  // namespace

TEST_CASE("aggregate: every value equals that of a brute-force computation over all curves") {
  for (const unsigned seed : {1u, 2u, 3u}) {
    auto curves = random_curves(seed);
    auto sorted = curves;
    for (auto& curve : sorted) order_by(curve.curve, catalog::CurveAxis::Step);
    const auto expected = by_step(sorted);
    const auto aggregate = aggregate_curves(curves, catalog::CurveAxis::Step, {.columns = 1000});
    REQUIRE(aggregate.raw);
    REQUIRE(aggregate.x.size() == expected.size());
    size_t i = 0;
    for (const auto& [step, values] : expected) {
      INFO("step " << step);
      CHECK(aggregate.x[i] == step);
      REQUIRE(aggregate.count[i] == values.values.size());
      const auto [low, high] = std::ranges::minmax_element(values.values);
      CHECK(aggregate.min[i] == low->first);
      CHECK(aggregate.max[i] == high->first);
      CHECK(aggregate.min_curve[i] == low->second);
      CHECK(aggregate.max_curve[i] == high->second);
      CHECK(equal(aggregate.mean[i], values.mean()));
      CHECK(aggregate.deviation[i] == Approx(std::sqrt(values.variance())).epsilon(1e-12));
      CHECK(aggregate.p10[i] == Approx(values.quantile(0.1)).epsilon(1e-9));
      CHECK(aggregate.median[i] == Approx(values.quantile(0.5)).epsilon(1e-9));
      CHECK(aggregate.p90[i] == Approx(values.quantile(0.9)).epsilon(1e-9));
      ++i;
    }
  }
}

TEST_CASE("aggregate: a column of steps has the extremes and the weighted means of its steps") {
  auto curves = random_curves(9);
  auto sorted = curves;
  for (auto& curve : sorted) order_by(curve.curve, catalog::CurveAxis::Step);
  const auto steps = by_step(sorted);
  constexpr size_t kColumns = 20;
  const auto aggregate = aggregate_curves(curves, catalog::CurveAxis::Step, {.columns = kColumns});
  CHECK_FALSE(aggregate.raw);
  const auto first = steps.begin()->first, width = (steps.rbegin()->first - first) / kColumns;
  std::vector<StepValues> columns(kColumns);
  std::vector<double> variances(kColumns, 0), medians(kColumns, 0);
  for (const auto& [step, values] : steps) {
    const auto column = std::min(static_cast<size_t>((step - first) / width), kColumns - 1);
    columns[column].values.insert(columns[column].values.end(), values.values.begin(),
                                  values.values.end());
    const auto weight = static_cast<double>(values.values.size());
    variances[column] += values.variance() * weight;
    medians[column] += values.quantile(0.5) * weight;
  }
  REQUIRE(aggregate.x.size() == kColumns);
  for (size_t i = 0; i < kColumns; ++i) {
    const auto count = static_cast<double>(columns[i].values.size());
    CHECK(aggregate.count[i] == columns[i].values.size());
    CHECK(aggregate.min[i] == std::ranges::min(columns[i].values).first);
    CHECK(aggregate.max[i] == std::ranges::max(columns[i].values).first);
    CHECK(aggregate.mean[i] == Approx(columns[i].mean()).epsilon(1e-12));
    CHECK(aggregate.deviation[i] == Approx(std::sqrt(variances[i] / count)).epsilon(1e-12));
    CHECK(aggregate.median[i] == Approx(medians[i] / count).epsilon(1e-9));
  }
}

TEST_CASE("aggregate: a range includes one step on each side, epochs are means of the curves") {
  std::vector<AggregatedCurve> curves(2);
  for (int step = 0; step < 10; ++step)
    for (int c = 0; c < 2; ++c) {
      auto& curve = curves[static_cast<size_t>(c)].curve;
      curve.step.push_back(step);
      curve.epoch.push_back(step + c);
      curve.value.push_back(step * 10 + c);
    }
  const auto aggregate =
      aggregate_curves(curves, catalog::CurveAxis::Epoch, {.from = 3, .to = 5, .columns = 10});
  CHECK(aggregate.x == std::vector<double>{2.5, 3.5, 4.5, 5.5});
  CHECK(aggregate.mean == std::vector<double>{20.5, 30.5, 40.5, 50.5});
  CHECK(aggregate.first_x == 0.5);
  CHECK(aggregate.last_x == 9.5);
  CHECK(aggregate_curves(curves, catalog::CurveAxis::Step, {.from = 5, .to = 3}).x.size() <= 2);
}

TEST_CASE("heatmap: means and maxima per rank and column, NaN without records") {
  std::vector<catalog::Curve> curves(2);
  for (int step = 0; step < 100; ++step) {
    curves[0].step.push_back(step);
    curves[0].value.push_back(step);
    if (step < 50) {
      curves[1].step.push_back(step);
      curves[1].value.push_back(step == 7 ? kNan : 1000 + step);
    }
  }
  const auto map = make_heatmap(curves, {.columns = 10});
  REQUIRE(map.edges.size() == 11);
  CHECK(map.edges.front() == 0);
  CHECK(map.edges.back() == 100);
  CHECK(map.mean[0][3] == Approx(34.5));
  CHECK(map.max[0][3] == 39);
  CHECK(map.mean[1][0] == Approx((1045.0 - 7 + 9 * 1000 - 1000) / 9).margin(120));
  CHECK(std::isnan(map.mean[1][5]));
  CHECK(map.smallest == Approx(4.5));
  CHECK(map.largest == Approx(1044.5));
  CHECK(make_heatmap(curves, {.from = 200}).edges.empty());
  CHECK(make_heatmap(curves, {.from = 3, .to = 5, .columns = 10}).edges.size() == 4);
}

TEST_CASE("heatmap: records at uneven steps leave no empty columns") {
  std::vector<catalog::Curve> curves(2);
  for (auto& curve : curves)
    for (double epoch = 0; epoch < 3; ++epoch)
      for (const double step : {50, 100, 150, 200, 250, 300, 350, 400, 450, 469}) {
        curve.step.push_back(469 * epoch + step);
        curve.value.push_back(1);
      }
  const auto map = make_heatmap(curves, {.columns = 600});
  CHECK(map.edges.size() > 20);
  for (const auto& row : map.mean)
    CHECK(std::ranges::none_of(row, [](double mean) { return std::isnan(mean); }));
}
