// Batches of a whole dataset, cut independently of the ranks and dealt out whole: batch k goes to
// rank k % W. A forward pass therefore sees the same samples together whatever W is.
#pragma once

#include <cstdint>
#include <vector>

#include "data/sampling/sampler.h"

namespace lockstep::trainer {

struct RoundRobinShard {
  int64_t num_batches = 0;       // of the dataset
  int64_t max_batches = 0;      // of any rank: of rank 0
  std::vector<int64_t> mine;     // numbers of this rank's batches, ascending
  std::vector<int64_t> indices;  // their samples, in order
};

// Only the dataset's last batch may be short, and it is the last of the rank that has it.
RoundRobinShard shard_batches(int64_t num_samples, int64_t batch_size, data::Shard shard);

}  // namespace lockstep::trainer
