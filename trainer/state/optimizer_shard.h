// The part of the optimizer that runs on this rank: all of it, or, with distributed.shard, the
// update of its shard of the parameters, whose state only this rank stores. Bit-identical to the
// unsharded optimizer: only elementwise optimizers are sharded (Optimizer::is_elementwise()), at
// aligned positions (Note [Chunks] in distributed/sharding/flat_parameters.h).
//
// Checkpoints do not depend on it: they hold whole tensors, under the names of the whole optimizer.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "distributed/sharding/flat_parameters.h"
#include "distributed/sharding/kept_shards.h"
#include "lockstep/optimizer.h"
#include "trainer/state/state_stream.h"

namespace lockstep::trainer {

// Thread: the training thread.
class OptimizerShard {
 public:
  using Build = std::function<std::shared_ptr<Optimizer>(const NamedTensors& parameters)>;

  // `flat`: of `parameters`, outlives this; null: not sharded. `build` gets the parameters, or this
  // rank's slices of them under the same names.
  OptimizerShard(NamedTensors parameters, distributed::FlatParameters* flat, const Build& build);

  // Collective, before step(): from now on, memory of all ranks has what only this rank stores
  // (distributed/sharding/kept_shards.h), as long as keep_shards() is called after load_state(). Not
  // sharded: does nothing. Throws Environment, and Config if the optimizer's state cannot be kept; so
  // may step() then.
  void keep_shards();
  // The shards of all ranks; null: not kept. It may outlive this.
  std::shared_ptr<const distributed::KeptShards> kept() const { return kept_; }

  double base_lr() const { return optimizer_->base_lr(); }
  bool is_sharded() const { return flat_ != nullptr; }

  // Collective when sharded: as Optimizer::step() of the whole.
  void step(double lr);

  // As those of Optimizer. While the evaluation weights are in use, state() is for a checkpoint.
  void use_evaluation_weights();
  void use_training_weights();

  // The live state of the whole optimizer. Not for sharded ones.
  NamedTensors state() const { return optimizer_->state(); }

  // Collective when sharded: the state of the whole optimizer, in its order, in the list "optimizer".
  // Not sharded: empty.
  std::vector<DividedState> divided_state();

  // The part of `whole`, a tensor from a checkpoint, that this rank stores: `whole` itself, a copy of a
  // slice, or an undefined tensor.
  at::Tensor keep(const std::string& name, const at::Tensor& whole) const;

  // `kept`: the defined results of keep() for all tensors of the checkpoint, which are called `saved`.
  // Throws Config if they do not fit.
  void load_state(NamedTensors kept, const std::vector<std::string>& saved);

 private:
  const distributed::ParameterSlice* find_slice(const std::string& state_name) const;
  void hold_state();

  NamedTensors parameters_;
  distributed::FlatParameters* flat_;
  NamedTensors slices_;  // of flat_->slices()
  std::shared_ptr<Optimizer> optimizer_;
  std::shared_ptr<distributed::KeptShards> kept_;
  std::vector<distributed::KeptShards::Item> kept_weights_;  // slices_
};

}  // namespace lockstep::trainer
