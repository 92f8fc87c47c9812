#include "trainer/loop/round_robin_shard.h"

#include <algorithm>

namespace lockstep::trainer {

RoundRobinShard shard_batches(int64_t num_samples, int64_t batch_size, data::Shard shard) {
  RoundRobinShard batches;
  batches.num_batches = (num_samples + batch_size - 1) / batch_size;
  batches.max_batches = (batches.num_batches + shard.world - 1) / shard.world;
  batches.local_batches = exact_split(batches.num_batches, shard);
  for (const auto batch : batches.local_batches)
    for (auto i = batch * batch_size; i < std::min(num_samples, (batch + 1) * batch_size); ++i)
      batches.indices.push_back(i);
  return batches;
}

}  // namespace lockstep::trainer
