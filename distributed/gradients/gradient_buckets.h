// Which gradients are averaged together, as in Python's DistributedDataParallel: in the first step
// all of them, then buckets in the order in which rank 0's gradients became ready in that step.
#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/data_parallel.h"
#include "lockstep/named_tensors.h"

namespace lockstep::distributed {

using GradientBucket = std::vector<size_t>;  // numbers of parameters

struct BucketCaps {
  size_t first_bytes, bytes;
};

BucketCaps bucket_caps(const DataParallelConfig& config);

// One bucket, but for parameters of several types. `caps`: those of the buckets, when their order
// is not going to be known.
std::vector<GradientBucket> unordered_buckets(const NamedTensors& parameters,
                                              const std::vector<size_t>& caps = {});

// As Reducer::rebuild_buckets(). `order`: each parameter's number once.
std::vector<GradientBucket> buckets_in_order(const NamedTensors& parameters,
                                             const std::vector<int64_t>& order,
                                             const BucketCaps& caps);

// Sizes of the buckets, in the order in which they are averaged when gradients become ready from
// the last parameter to the first.
std::vector<size_t> expected_bucket_bytes(const NamedTensors& parameters,
                                          const DataParallelConfig& config);

}  // namespace lockstep::distributed
