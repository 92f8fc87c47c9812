// What a plan knows about the sizes of a run, and the memory and traffic that follow from them.
#pragma once

#include <vector>

#include "distributed/sharding/shard_strategy.h"
#include "lockstep/named_tensors.h"
#include "lockstep/optimizer.h"
#include "trainer/commands/plan/measured_activations.h"
#include "trainer/prepared/prepared_run.h"

namespace lockstep::trainer {

// Bytes of the whole run, and what divides them.
struct PlannedSizes {
  size_t weights = 0;     // with buffers
  size_t parameters = 0;  // of `weights`, what is divided with `full`
  size_t trained = 0, state = 0, average = 0;
  size_t activations = 0;     // of one rank
  size_t exchanged = 0;       // the averaged gradients as they are sent, of one rank
  size_t bucket_bytes = 0;    // cap of a unit of gradients
  size_t largest_bucket = 0;  // gradients that ranks of a host exchange together
  std::vector<distributed::UnitBytes> units;           // with `full` over a network; [0]: no unit
  std::vector<distributed::UnitBytes> gradient_units;  // with `gradients` over a network

  size_t world = 1, local_world = 1, writers = 1;
  size_t micro_batches = 1;  // per step
  bool has_snapshot = false, is_on_cpu = true;
  bool has_copies = false;         // of what is sharded (--on-rank-loss continue)
  bool shares_memory = false;      // whether all ranks do
  bool has_copy_per_host = false;  // sharded gradients and weights are divided within each host
  bool is_hierarchical = false;    // distributed.backend: hierarchical
  bool has_reducer = false;        // gradients that are not sharded are averaged by c10d::Reducer
  bool has_bucket_views = false, is_compressed = false;  // of the Reducer
  bool gathers_through_copies = false;                   // Gloo's all-gather

  size_t checkpoint() const { return weights + state + average; }
  bool is_hybrid(ShardStrategy strategy) const {
    return has_copy_per_host && distributed::shards_gradients(strategy);
  }
};

PlannedSizes sizes_of(const PreparedRun& run, const NamedTensors& trained,
                      const Activations& activations);

// Bytes per rank; of what the ranks of a host have once, a rank's part. "bytes": in total, at the
// time when they are most.
Json plan_memory(const PlannedSizes& sizes, ShardStrategy strategy);

// Bytes that are sent per step: by each rank to others, and by all ranks of a host to other hosts.
struct PlannedTraffic {
  size_t per_rank = 0, per_host = 0;
};
PlannedTraffic plan_traffic(const PlannedSizes& sizes, ShardStrategy strategy);

}  // namespace lockstep::trainer
