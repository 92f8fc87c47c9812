#include "data/mixture_plan.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace lockstep::data {

std::vector<int64_t> mixture_counts(const std::vector<double>& weights, int64_t total) {
  const auto sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<int64_t> counts;
  std::vector<double> fractions;
  for (const auto weight : weights) {
    const auto exact = static_cast<double>(total) * (weight / sum);
    counts.push_back(static_cast<int64_t>(std::floor(exact)));
    fractions.push_back(exact - std::floor(exact));
  }
  std::vector<size_t> order(weights.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::greater(), [&](size_t part) { return fractions[part]; });
  auto left = total - std::accumulate(counts.begin(), counts.end(), int64_t{0});
  for (size_t i = 0; left > 0; i = (i + 1) % order.size(), --left) ++counts[order[i]];
  return counts;
}

int64_t mixture_total(const std::vector<double>& weights, const std::vector<int64_t>& sizes) {
  const auto sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  double total = 0;
  for (size_t i = 0; i < weights.size(); ++i)
    total = std::max(total, static_cast<double>(sizes[i]) * (sum / weights[i]));
  // Rounding errors must not make it one more.
  return static_cast<int64_t>(std::ceil(std::min(total * (1 - 1e-12), 9e15)));
}

std::vector<MixtureSample> plan_mixture(const std::vector<int64_t>& counts,
                                        const std::vector<int64_t>& sizes) {
  const auto total = std::accumulate(counts.begin(), counts.end(), int64_t{0});
  std::vector<int64_t> used(counts.size(), 0);
  std::vector<MixtureSample> plan;
  plan.reserve(static_cast<size_t>(total));
  for (int64_t i = 0; i < total; ++i) {
    size_t next = 0;
    int64_t largest_lag = INT64_MIN;
    for (size_t part = 0; part < counts.size(); ++part) {
      const auto lag = counts[part] * (i + 1) - total * used[part];
      if (used[part] == counts[part] || lag <= largest_lag) continue;
      largest_lag = lag;
      next = part;
    }
    const auto number = used[next]++;
    const auto sample =
        counts[next] < sizes[next] ? number * sizes[next] / counts[next] : number % sizes[next];
    plan.push_back({static_cast<uint32_t>(next), static_cast<uint32_t>(sample)});
  }
  return plan;
}

}  // namespace lockstep::data
