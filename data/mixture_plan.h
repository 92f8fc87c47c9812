// Which sample of which part each sample of a mixture is. No LibTorch.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace lockstep::data {

struct MixtureSample {
  uint32_t part, sample;
  bool operator==(const MixtureSample&) const = default;
};

// The number of samples of each part, which add up to `total`: each is its share of the total,
// rounded down, and the largest fractions are rounded up.
std::vector<int64_t> mixture_counts(const std::vector<double>& weights, int64_t total);

// The smallest total with which every sample of every part is used, for parts of `sizes`.
int64_t mixture_total(const std::vector<double>& weights, const std::vector<int64_t>& sizes);

// All samples of a mixture. Parts alternate, so that each is near its share at every point. The
// samples of a part are in order: spread evenly if it has more than are used, repeated if fewer.
std::vector<MixtureSample> plan_mixture(const std::vector<int64_t>& counts,
                                        const std::vector<int64_t>& sizes);

}  // namespace lockstep::data
