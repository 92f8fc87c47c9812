// The batches of one optimizer step, and what the loss of each weighs in the step's gradient.
#pragma once

#include <string_view>
#include <vector>

#include "data/loader/loader.h"
#include "data/sampling/batch_shares.h"
#include "lockstep/model.h"
#include "lockstep/world.h"
#include "trainer/loop/gradients.h"

namespace lockstep::trainer {

struct StepPlan {
  int64_t accumulate = 1;  // batches of a step, unless the loader ends earlier
  int64_t num_ranks = 1;
  data::BatchShares shares;       // of all of the loader's batches
  bool may_lack_samples = false;  // those that cannot be loaded are left out
  std::string_view model = {};    // its name, for messages
};

class StepBatches {
 public:
  // Loads nothing. The arguments outlive this. The loader has a batch left.
  StepBatches(const Model& model, data::Loader& loader, const StepPlan& plan);

  // Before next(). With a model that counts targets (Model::target_name()), or where samples may be
  // lacking, collective, and loads all batches: how much each weighs depends on the targets, or
  // samples, of all batches of all ranks. Otherwise does nothing: their samples are known.
  void agree_on_weights(World& world);

  // The next batch; it may be called as often as there are batches.
  Batch next();
  bool is_last() const { return given_ == num_batches_; }  // that next() gave last

  // Whether the batch that next() gave last counts: a rank without samples of its own in this batch
  // takes part with one that does not (data/sampling/batch_shares.h).
  bool counts() const { return weight_of(given_ - 1).part > 0; }

  // Of `batch`, that next() gave last: throws Config unless the model kept to its contract
  // (trainer/prepared/model_faults.h). `has_gradient`: autograd follows the loss.
  void verify(const Batch& batch, const Outputs& outputs, bool has_gradient) const;

  // The loss of that batch, or a number in its place, weighted so that after averaging over ranks
  // the gradients of all batches add up to that of the mean over all samples, or all targets. With
  // equal counts everywhere that is by 1, or a division by the number of batches.
  at::Tensor weighted(const at::Tensor& loss) const;

 private:
  // By the samples of the step's batch `number`.
  BatchWeight weight_of(int64_t number) const {
    return {.part = shares_.counted(first_ + number) * num_ranks_, .whole = num_samples_};
  }

  const Model& model_;
  data::Loader& loader_;
  data::BatchShares shares_;
  std::string_view title_;  // of the model
  int64_t num_ranks_;
  int64_t first_;            // of the loader's batches
  int64_t num_samples_ = 0;  // of all batches on all ranks
  int64_t num_batches_, given_ = 0;
  bool has_targets_;            // the model counts them
  bool counted_;                // targets, or samples
  std::vector<Batch> batches_;  // if counted
  std::vector<at::Tensor> divisors_;
};

}  // namespace lockstep::trainer
