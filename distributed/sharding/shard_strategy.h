// distributed.shard: which strategy is possible where, and the start of a sharded model.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "distributed/sharding/flat_parameters.h"
#include "lockstep/data_parallel.h"
#include "lockstep/world.h"

namespace lockstep::distributed {

constexpr bool shards_gradients(ShardStrategy strategy) {
  return strategy == ShardStrategy::Gradients || strategy == ShardStrategy::Full;
}

// The name of an option that only c10d::Reducer has, if it is set.
std::optional<std::string> reducer_option(const DataParallelConfig& config);

// Why ranks cannot shard gradients or weights: they do not share memory, or an option excludes it.
// nullopt: they can.
struct SharingRanks {
  bool on_cpu = true, on_one_host = true;
  BackendChoice backend = BackendChoice::Auto;
};
std::optional<std::string> reason_against_per_host(const SharingRanks& ranks,
                                                   const DataParallelConfig& config);

// Collective. Moves the trainable parameters of `module` into flat memory; with Full, the frozen
// ones too. Returns null with None. Throws Config when the ranks cannot share memory as the strategy
// requires. Requires: a distributed world, a strategy other than Auto.
std::unique_ptr<FlatParameters> shard_parameters(World& world, torch::nn::Module& module,
                                                 const DataParallelConfig& config);

}  // namespace lockstep::distributed
