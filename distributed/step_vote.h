// One vote per optimizer step: the flags of all ranks are OR-ed, so that all ranks act on them at
// the same step. An event on a single rank (a signal, a request to stop, a metric that no longer
// improves) never leaves the others waiting in a collective.
//
// The vote is a four-byte all_reduce in the control group, started before the work of the step and
// completed after it, so that communication overlaps with computation.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>

#include "lockstep/world.h"

namespace lockstep::distributed {

class StepVote {
 public:
  explicit StepVote(World& world);
  ~StepVote();
  StepVote(const StepVote&) = delete;
  StepVote& operator=(const StepVote&) = delete;

  // Collective: starts a vote with this rank's flags. If ranks share memory, it blocks until all
  // have called it; otherwise it does not wait. Throws PeerError.
  void begin(uint32_t flags);
  // Collective: returns the OR of the flags of all ranks in the current vote. Throws PeerError.
  uint32_t finish();

 private:
  struct Pending;
  World& world_;
  at::Tensor flags_;
  std::unique_ptr<Pending> pending_;
};

}  // namespace lockstep::distributed
