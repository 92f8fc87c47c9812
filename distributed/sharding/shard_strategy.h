// distributed.shard: validates the strategy, and sets up a sharded model.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "distributed/sharding/flat_parameters.h"
#include "lockstep/data_parallel.h"
#include "lockstep/world.h"

namespace lockstep::distributed {

class ShardedWeights;

constexpr bool shards_gradients(ShardStrategy strategy) {
  return strategy == ShardStrategy::Gradients || strategy == ShardStrategy::Full;
}

// The name of a set option that only c10d::Reducer supports.
std::optional<std::string> reducer_option(const DataParallelConfig& config);

// A model of which each rank keeps a share.
struct Sharding {
  std::unique_ptr<FlatParameters> trained;
  std::unique_ptr<FlatParameters> frozen;   // with Full; may have no parameters
  std::unique_ptr<ShardedWeights> weights;  // with Full, on ranks that do not share memory
  bool has_shared_gradients = false;        // one copy of the gradients per host

  // Whether weights are shared or divided (Full): no rank has its own copy of all.
  bool is_full() const { return frozen != nullptr; }

  Sharding();
  ~Sharding();

  // The ranks that divide the state: all, or with a hierarchical backend those of this host, unless
  // only the optimizer is sharded.
  World& ranks() const { return trained->ranks(); }

  // The weights that are not whole on any rank. `own` of the results: the live chunks.
  std::vector<std::pair<std::string, DividedTensor>> divided_weights() const;

  // Collective, with is_full(): sets a parameter of the model to rank 0's `whole`, converted to its
  // type; other ranks pass none. Returns false if the model has no such parameter. Call
  // publish_weights() after the last one.
  bool set_weight(const std::string& name, const at::Tensor& whole) const;
  void publish_weights(World& world) const;
};

struct ShardOptions {
  // What is gathered and exchanged together on ranks that do not share memory.
  std::vector<ShardUnit> units = {};  // with Full
  size_t gradient_bytes = 25 << 20;   // with Gradients
  bool has_values = true;             // false, with Full: weights have none until set_weight()
};

// Why the weights of `module` cannot be gathered in `units`. nullopt: they can.
std::optional<std::string> reason_against_units(const torch::nn::Module& module,
                                                const std::vector<ShardUnit>& units);

// The bytes of a unit, without the padding of chunks.
struct UnitBytes {
  size_t weights = 0, trained = 0;  // all of them; those that have gradients
};

// What is gathered and exchanged together with Full on ranks that do not share memory. [0]: outside
// of `units`, each of which follows.
std::vector<UnitBytes> bytes_of_units(const torch::nn::Module& module,
                                      const std::vector<ShardUnit>& units);

// The same with Gradients. `bytes`: UnitOptions::gradient_bytes.
std::vector<UnitBytes> bytes_of_gradient_units(const NamedTensors& trained, size_t bytes);

// Collective. Moves the parameters of `module` into flat memory. They are equal on all ranks,
// except with Full: only rank 0's are used then. Returns null with None. Throws Config when the
// strategy is not possible. Requires: a distributed world, a strategy other than Auto.
std::unique_ptr<Sharding> shard_model(World& world, torch::nn::Module& module,
                                      const DataParallelConfig& config,
                                      const ShardOptions& options = {});

}  // namespace lockstep::distributed
