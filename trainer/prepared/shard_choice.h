// The sharding strategy of a run: known before the ranks connect.
#pragma once

#include "distributed/sharding/shard_strategy.h"
#include "lockstep/data_parallel.h"
#include "lockstep/optimizer.h"
#include "trainer/prepared/prepared_run.h"

namespace lockstep::trainer {

// How the ranks of a run communicate, as far as it is known before they connect.
struct RankLayout {
  bool on_cpu = true;
  int world_size = 1, local_world_size = 1;
  BackendChoice backend = BackendChoice::Auto;

  // Whether all ranks share memory, and thus one copy of sharded gradients and weights.
  bool shares_memory() const {
    return on_cpu && local_world_size == world_size &&
           (backend == BackendChoice::Auto || backend == BackendChoice::Shm);
  }
  // Whether each host has such a copy, equal to those of the other hosts.
  bool has_copy_per_host() const { return backend == BackendChoice::Hierarchical; }
};

RankLayout layout_of(const PreparedRun& run);

// Why a strategy is not possible for a run, with the nearest one that is.
struct ShardRefusal {
  std::string reason;
  ShardStrategy nearest = ShardStrategy::None;
};

// nullopt: `strategy`, which is not Auto, is possible. `optimizer`: any instance of the run's.
std::optional<ShardRefusal> refuse_shards(const PreparedRun& run, const Optimizer& optimizer,
                                          ShardStrategy strategy);

// Replaces Auto by the strategy that shards most. Throws Config when the chosen one is not possible.
ShardStrategy choose_shards(const PreparedRun& run);

}  // namespace lockstep::trainer
