// The part of the optimizer that this rank runs: all of it, or, with distributed.shard: optimizer
// (ZeRO-1), the update of its share of the parameters, whose state it alone has. The bits are those
// of the whole optimizer, since only elementwise ones are cut (Optimizer::is_elementwise) and where
// it does not show (Note [Chunks] in distributed/sharding/flat_parameters.h).
//
// Checkpoints do not depend on it: they hold whole tensors, under the names of the whole optimizer.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "distributed/sharding/flat_parameters.h"
#include "lockstep/optimizer.h"
#include "lockstep/world.h"

namespace lockstep::trainer {

enum class ShardStrategy { None, Optimizer };
constexpr auto choices(ShardStrategy) { return std::array{"none", "optimizer"}; }

// Throws Config when `optimizer` cannot be sharded like that. `name`: of the optimizer.
void verify_shardable(const Optimizer& optimizer, ShardStrategy strategy, const std::string& name);

// Thread: the training thread.
class OptimizerShard {
 public:
  using Build = std::function<std::shared_ptr<Optimizer>(const NamedTensors& parameters)>;

  // Collective with a strategy other than None: moves the parameters into memory that is cut into
  // chunks. `build` gets the parameters, or this rank's slices of them under the same names.
  static OptimizerShard create(World& world, NamedTensors parameters, ShardStrategy strategy,
                               const Build& build);

  double base_lr() const { return optimizer_->base_lr(); }
  bool is_sharded() const { return flat_.has_value(); }

  // Collective when sharded: as Optimizer::step() of the whole.
  void step(double lr);

  // The state of the whole optimizer. Not sharded: the live tensors. Sharded, and collective then: names,
  // types and sizes, as tensors of the meta device, whose content collect() brings.
  NamedTensors state();

  // Collective when sharded: the content of `wanted`, some of state(), which may differ between ranks.
  NamedTensors collect(const NamedTensors& wanted);

  // What this rank keeps of a tensor of the whole state, read from a checkpoint: `whole` itself, a copy
  // of a slice, or an undefined tensor.
  at::Tensor keep(const std::string& name, const at::Tensor& whole) const;

  // `kept`: of all tensors of the checkpoint, what keep() returned and is defined. Throws Config when
  // they do not fit.
  void load_state(const NamedTensors& kept);

 private:
  OptimizerShard(World& world, NamedTensors parameters)
      : world_(world), parameters_(std::move(parameters)) {}

  // A tensor of the state, on the ranks that have a part of it.
  struct Entry;
  std::vector<Entry> entries();
  const distributed::ParameterSlice* find_slice(const std::string& state_name) const;

  World& world_;
  NamedTensors parameters_;
  std::optional<distributed::FlatParameters> flat_;
  NamedTensors slices_;  // of flat_->slices()
  std::shared_ptr<Optimizer> optimizer_;
};

}  // namespace lockstep::trainer
