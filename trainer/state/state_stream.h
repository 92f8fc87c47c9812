// The training state that is divided between ranks, for a checkpoint: one tensor at a time is whole.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "distributed/sharding/divided_tensor.h"
#include "lockstep/world.h"

namespace lockstep::trainer {

// A tensor of a checkpoint, in one of its lists (kTensorFiles).
struct DividedState {
  std::string list, name;
  distributed::DividedTensor tensor;
};

// Each rank creates a stream of the same tensors, takes those that it wants, in their order, and
// finishes. Thread: the training thread.
class StateStream {
 public:
  // `world`: the ranks that divide the tensors.
  StateStream(World& world, std::vector<DividedState> tensors)
      : world_(world), tensors_(std::move(tensors)) {}

  // Collective. Returns the whole tensor, which comes after those taken before.
  at::Tensor take(const std::string& list, const std::string& name);

  // Collective: takes part in what other ranks still take. Call it also after an error of this rank.
  void finish();

 private:
  World& world_;
  std::vector<DividedState> tensors_;
  size_t next_ = 0;
};

}  // namespace lockstep::trainer
