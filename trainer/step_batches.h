// The batches of one optimizer step, and what the loss of each weighs in the step's gradient.
#pragma once

#include <vector>

#include "data/loader.h"
#include "distributed/world.h"
#include "models/model.h"

namespace lockstep {

struct StepPlan {
  int64_t accumulate = 1;         // batches of a step, unless the loader ends earlier
  int64_t batch_size = 1;         // of this rank
  bool may_lack_samples = false;  // those that cannot be loaded are left out
};

class StepBatches {
 public:
  // With a model that counts targets (Model::target_name()), or where samples may be lacking,
  // collective, and loads all batches: how much each weighs depends on the targets, or samples, of
  // all batches of all ranks. Otherwise loads nothing.
  // The arguments outlive this. The loader has a batch left.
  StepBatches(World& world, const Model& model, Loader& loader, const StepPlan& plan);

  // The next batch; it may be called as often as there are batches.
  Batch next();
  bool is_last() const { return given_ == num_batches_; }  // that next() gave last

  // Of the batch that next() gave last: throws Bug unless the model kept to its contract.
  void verify(const Outputs& outputs) const;

  // The loss of that batch, or a number in its place, weighted so that after averaging over ranks
  // the gradients of all batches add up to that of the mean over all samples, or all targets. With
  // equal counts everywhere that is by 1, or a division by the number of batches.
  at::Tensor weighted(const at::Tensor& loss) const;

 private:
  Loader& loader_;
  int64_t num_batches_, given_ = 0, last_size_ = 0;
  std::vector<int64_t> samples_;  // of each batch, where there are several
  bool has_targets_;              // the model counts them
  bool counted_;                  // targets, or samples
  std::vector<Batch> batches_;    // if counted
  std::vector<at::Tensor> divisors_;
};

}  // namespace lockstep
