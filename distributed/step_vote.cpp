#include "distributed/step_vote.h"

#include <ATen/ATen.h>

#include "distributed/backends/process_groups.h"
#include "distributed/fence.h"

namespace lockstep::distributed {

struct StepVote::Pending {
  c10::intrusive_ptr<c10d::Work> work;
  std::vector<at::Tensor> tensors;
};

StepVote::StepVote(World& world)
    : world_(world), flags_(at::zeros({1}, at::kInt)), pending_(std::make_unique<Pending>()) {
  pending_->tensors = {flags_};
}

StepVote::~StepVote() = default;

void StepVote::begin(uint32_t flags) {
  *flags_.mutable_data_ptr<int32_t>() = static_cast<int32_t>(flags);
  if (!world_.is_distributed()) return;
  fenced(world_, "step vote", [&] {
    if (const auto& shared = world_.groups().shared)
      return shared->reduce_to_all(flags_, c10d::ReduceOp::BOR);
    c10d::AllreduceOptions options;
    options.reduceOp = c10d::ReduceOp::BOR;
    pending_->work = world_.groups().control->allreduce(pending_->tensors, options);
  });
}

uint32_t StepVote::finish() {
  if (pending_->work) fenced(world_, "result of the step vote", [&] { pending_->work->wait(); });
  return static_cast<uint32_t>(*flags_.const_data_ptr<int32_t>());
}

}  // namespace lockstep::distributed
