// The sharding strategy of a run: known before the ranks connect.
#pragma once

#include "distributed/sharding/shard_strategy.h"
#include "lockstep/data_parallel.h"
#include "lockstep/optimizer.h"
#include "trainer/prepared/prepared_run.h"

namespace lockstep::trainer {

// How the ranks of a run communicate.
distributed::RankLayout layout_of(const PreparedRun& run);

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
