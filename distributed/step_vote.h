// One vote per optimizer step: each rank brings flags, all ranks get the flags that any rank
// brought, and so act on them at the same step. What one rank alone noticed (a signal, a request to
// stop, a metric that no longer improves) never leaves the others waiting in a collective.
//
// The vote is one all_reduce of four bytes in the control group, begun before the work of the step
// and collected behind it, so that it travels while the step computes.
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

  // Collective: begins a vote with this rank's flags. Where ranks share memory it also ends it,
  // within microseconds of the last rank's coming; elsewhere it does not wait. Throws PeerError.
  void begin(uint32_t flags);
  // Collective: the flags of all ranks, OR-ed, of the vote that began last. Throws PeerError.
  uint32_t finish();

 private:
  struct Pending;
  World& world_;
  at::Tensor flags_;
  std::unique_ptr<Pending> pending_;
};

}  // namespace lockstep::distributed
