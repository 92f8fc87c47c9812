// Assignment of gradients to buckets, as in Python's DistributedDataParallel: one bucket in the
// first step, then buckets in the order in which rank 0's gradients became ready in that step.
#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/data_parallel.h"
#include "lockstep/named_tensors.h"

namespace lockstep::distributed {

using GradientBucket = std::vector<size_t>;  // indices of parameters

struct BucketCaps {
  size_t first_bytes, bytes;
};

BucketCaps bucket_caps(const DataParallelConfig& config);

// Buckets for an unknown order: one bucket per parameter type, or buckets of at most `caps` bytes
// where the order will not become known.
std::vector<GradientBucket> unordered_buckets(const NamedTensors& parameters,
                                              const std::vector<size_t>& caps = {});

// Like Reducer::rebuild_buckets(). `order`: a permutation of parameter indices.
std::vector<GradientBucket> buckets_in_order(const NamedTensors& parameters,
                                             const std::vector<int64_t>& order,
                                             const BucketCaps& caps);

// Bucket sizes in the order in which they are averaged, if gradients become ready from the last
// parameter to the first.
std::vector<size_t> expected_bucket_bytes(const NamedTensors& parameters,
                                          const DataParallelConfig& config);

}  // namespace lockstep::distributed
