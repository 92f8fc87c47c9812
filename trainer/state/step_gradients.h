// The averaged gradients of a step, and the parts of them that this rank may modify.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "distributed/sharding/shard_strategy.h"
#include "lockstep/named_tensors.h"
#include "lockstep/world.h"

namespace lockstep::trainer {

// With distributed.shard: gradients or full there is one copy of them for all ranks, or each rank
// has its slices only. Each rank then scales its own slices, and norms of whole tensors are divided
// between the ranks; both have the bits of a rank that does it alone.
//
// Thread: the training thread.
class StepGradients {
 public:
  // Gradients of this rank alone.
  explicit StepGradients(const NamedTensors& parameters);

  // `sharding`: of a model with these trainable `parameters`; null: none.
  StepGradients(const NamedTensors& parameters, const distributed::Sharding* sharding);

  // Whether no parameter has a gradient, on any rank.
  bool empty() const { return gradients_.empty() && !divided_; }
  at::Device device() const;

  // What this rank scales: whole gradients, or its slices of them.
  const std::vector<at::Tensor>& own() const { return own_; }

  // The 2-norm of each gradient, in one tensor on their device. Collective if sharded: no rank scales
  // a gradient before all have measured theirs.
  at::Tensor norms() const;

  // The largest `value`, a scalar tensor, of all ranks. Collective if sharded, else `value` itself:
  // ranks with equal gradients agree without communication.
  at::Tensor max_of_ranks(at::Tensor value) const;

 private:
  // Calls visit(index, gradient) for each gradient that is measured on this rank.
  void visit_measured(const distributed::FlatParameters::VisitGradient& visit) const;

  World* world_ = nullptr;                          // that divides them; null: not sharded
  distributed::FlatParameters* divided_ = nullptr;  // if a rank has its slices only
  std::vector<at::Tensor> gradients_, own_;         // whole; unless divided
  std::vector<bool> is_measured_here_;              // of each of gradients_
};

}  // namespace lockstep::trainer
