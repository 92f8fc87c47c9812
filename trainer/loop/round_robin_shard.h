// Round-robin sharding of a dataset's batches: they are cut independently of the ranks, and batch k
// goes to rank k % W. A forward pass therefore gets the same samples for any W.
#pragma once

#include <cstdint>
#include <vector>

#include "data/sampling/sampler.h"

namespace lockstep::trainer {

struct RoundRobinShard {
  int64_t num_batches = 0;             // of the dataset
  int64_t max_batches = 0;             // maximum over ranks, which is that of rank 0
  std::vector<int64_t> local_batches;  // numbers of this rank's batches, ascending
  std::vector<int64_t> indices;        // their samples, in order
};

// Only the dataset's last batch may be short, and it is the last one of its rank.
RoundRobinShard shard_batches(int64_t num_samples, int64_t batch_size, data::Shard shard);

}  // namespace lockstep::trainer
