#include "distributed/gradients/gradient_buckets.h"

#include <torch/csrc/distributed/c10d/reducer.hpp>

#include <algorithm>
#include <limits>
#include <numeric>

namespace lockstep::distributed {

BucketCaps bucket_caps(const DataParallelConfig& config) {
  const auto mib = [](double value) { return static_cast<size_t>(value * (1 << 20)); };
  if (config.bucket_cap_mb) return {mib(*config.bucket_cap_mb), mib(*config.bucket_cap_mb)};
  return {c10d::kDefaultFirstBucketBytes, c10d::kDefaultBucketBytesCap};
}

std::vector<GradientBucket> unordered_buckets(const NamedTensors& parameters,
                                              const std::vector<size_t>& caps) {
  const std::vector<size_t> one = {std::numeric_limits<int64_t>::max()};
  const std::vector<bool> dense(parameters.size(), false);
  auto buckets = std::get<0>(c10d::compute_bucket_assignment_by_size(
      values_of(parameters), caps.empty() ? one : caps, dense));
  std::reverse(buckets.begin(), buckets.end());
  return buckets;
}

std::vector<GradientBucket> buckets_in_order(const NamedTensors& parameters,
                                             const std::vector<int64_t>& order,
                                             const BucketCaps& caps) {
  std::vector<at::Tensor> ordered;
  for (const auto index : order) ordered.push_back(parameters[static_cast<size_t>(index)].second);
  const std::vector<bool> dense(parameters.size(), false);
  return std::get<0>(c10d::compute_bucket_assignment_by_size(
      ordered, {caps.first_bytes, caps.bytes}, dense, order));
}

std::vector<size_t> expected_bucket_bytes(const NamedTensors& parameters,
                                          const DataParallelConfig& config) {
  std::vector<int64_t> order(parameters.size());
  std::iota(order.rbegin(), order.rend(), 0);
  std::vector<size_t> sizes;
  for (const auto& bucket : buckets_in_order(parameters, order, bucket_caps(config))) {
    sizes.push_back(0);
    for (const auto index : bucket) sizes.back() += parameters[index].second.nbytes();
  }
  return sizes;
}

}  // namespace lockstep::distributed
