// The gradients of a step after they are averaged: what this rank reads and what it writes of them.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "distributed/sharding/flat_parameters.h"
#include "lockstep/named_tensors.h"
#include "lockstep/world.h"

namespace lockstep::trainer {

// With distributed.shard: gradients or full there is one copy of them for all ranks. Each rank then
// scales its own slices, and norms of whole tensors are divided between the ranks; both have the
// bits of a rank that does it alone.
//
// Thread: the training thread.
class StepGradients {
 public:
  // Gradients of this rank alone.
  explicit StepGradients(const NamedTensors& parameters);

  // `shared`: how `parameters` are divided if all ranks share one copy of their gradients, else null.
  StepGradients(World& world, const NamedTensors& parameters,
                const distributed::FlatParameters* shared);

  bool empty() const { return gradients_.empty(); }
  at::Device device() const { return gradients_.front().device(); }

  // What this rank scales: whole gradients, or its slices of them.
  const std::vector<at::Tensor>& own() const { return own_; }

  // The 2-norm of each gradient, in one tensor on their device. Collective if shared: no rank scales
  // a gradient before all have measured theirs.
  at::Tensor norms() const;

  // The largest `value`, a scalar tensor, of all ranks. Collective if shared, else `value` itself:
  // ranks with equal gradients agree without communication.
  at::Tensor max_of_ranks(at::Tensor value) const;

 private:
  World* world_ = nullptr;  // null: not shared
  std::vector<at::Tensor> gradients_, own_;
  std::vector<bool> is_measured_here_;  // of each of gradients_; empty: all
};

}  // namespace lockstep::trainer
