// The part of the optimizer that this rank runs: all of it, or, with distributed.shard, the update
// of its share of the parameters, whose state it alone has. The bits are those
// of the whole optimizer, since only elementwise ones are cut (Optimizer::is_elementwise) and where
// it does not show (Note [Chunks] in distributed/sharding/flat_parameters.h).
//
// Checkpoints do not depend on it: they hold whole tensors, under the names of the whole optimizer.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "distributed/sharding/flat_parameters.h"
#include "lockstep/optimizer.h"
#include "lockstep/world.h"

namespace lockstep::trainer {

// Thread: the training thread.
class OptimizerShard {
 public:
  using Build = std::function<std::shared_ptr<Optimizer>(const NamedTensors& parameters)>;

  // `flat`: of `parameters`, outlives this; null: not sharded. `build` gets the parameters, or this
  // rank's slices of them under the same names.
  OptimizerShard(World& world, NamedTensors parameters, distributed::FlatParameters* flat,
                 const Build& build);

  double base_lr() const { return optimizer_->base_lr(); }
  bool is_sharded() const { return flat_ != nullptr; }

  // Null: not sharded.
  distributed::FlatParameters* flat_parameters() const { return flat_; }

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
  // A tensor of the state, on the ranks that have a part of it.
  struct Entry;
  std::vector<Entry> entries();
  const distributed::ParameterSlice* find_slice(const std::string& state_name) const;

  World& world_;
  NamedTensors parameters_;
  distributed::FlatParameters* flat_;
  NamedTensors slices_;  // of flat_->slices()
  std::shared_ptr<Optimizer> optimizer_;
};

}  // namespace lockstep::trainer
