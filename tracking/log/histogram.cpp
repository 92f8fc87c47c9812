#include "tracking/log/histogram.h"

#include <algorithm>
#include <cmath>

#include "lockstep/error.h"

namespace lockstep::tracking {

Histogram make_histogram(std::string name, int64_t step, std::span<const float> values,
                         int num_bins) {
  check(num_bins >= 1, "a histogram needs at least one bin");
  double low = INFINITY, high = -INFINITY;
  for (const double value : values) {
    if (!std::isfinite(value)) continue;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  if (low > high)
    return {.at = {.name = std::move(name), .step = step}, .edges = {0, 1}, .counts = {0}};
  const double width = high > low ? (high - low) / num_bins : 1.0 / num_bins;
  Histogram histogram{.at = {.name = std::move(name), .step = step}};
  histogram.counts.resize(static_cast<size_t>(num_bins));
  for (int i = 0; i <= num_bins; ++i) histogram.edges.push_back(low + i * width);
  for (const double value : values) {
    if (!std::isfinite(value)) continue;
    const auto bin = static_cast<int64_t>((value - low) / width);
    ++histogram.counts[static_cast<size_t>(std::clamp<int64_t>(bin, 0, num_bins - 1))];
  }
  return histogram;
}

}  // namespace lockstep::tracking
