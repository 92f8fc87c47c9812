// The batches of one optimizer step, and the weight of each one's loss in the step's gradient.
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
  int64_t accumulate = 1;         // batches of a step, unless the loader ends earlier; of each part
  data::BatchShares shares;       // of all of the loader's batches
  bool may_skip_samples = false;  // samples that cannot be loaded are skipped
  std::string_view model = {};    // its name, for messages
};

// With several parts per rank (BatchRule::parts), the batches of a part come one after another.
class StepBatches {
 public:
  // Loads nothing. The arguments outlive this. The loader must have a batch left.
  StepBatches(const Model& model, data::Loader& loader, const StepPlan& plan);

  // The batches of one part of the same step, of any rank, from a loader that has these only: their
  // weights are those that agree_on_weights() determined for `step`.
  StepBatches(const StepBatches& step, data::Loader& loader);

  // Call before next(). With a model that counts targets (Model::target_name()), or if samples may
  // be missing: collective, and loads all batches, since their weights depend on the targets, or
  // samples, of all batches of all ranks. Otherwise the counts are known.
  void agree_on_weights(World& world);

  // The samples of this rank's `part`, in the order of next().
  std::vector<int64_t> samples_of(int64_t part) const;

  // Returns the next batch; at most once per batch of the step.
  Batch next();
  bool is_last() const { return returned_ == num_batches_; }  // next() has returned the last batch

  // The part of the current batch, and whether it is the first or last batch of it.
  int64_t part() const { return (returned_ - 1) / per_part_; }
  bool begins_part() const { return (returned_ - 1) % per_part_ == 0; }
  bool ends_part() const { return returned_ % per_part_ == 0; }

  // Whether the current batch, the last one that next() returned, counts: a rank without its own
  // samples in this batch participates with one that does not (data/sampling/batch_shares.h).
  bool counts() const { return weight_of(returned_ - 1).part > 0; }

  // Throws Config unless `outputs`, of the current batch, fulfill the model's contract
  // (trainer/prepared/model_faults.h). `has_gradient`: the loss requires grad.
  void verify(const Batch& batch, const Outputs& outputs, bool has_gradient) const;

  // Returns `loss`, of the current batch or a substitute, weighted such that after averaging over
  // ranks the gradients of all batches add up to that of the mean over all samples, or all targets.
  // With equal counts everywhere, the weight is 1 or a division by the number of batches.
  at::Tensor weighted(const at::Tensor& loss) const;

 private:
  // By the samples of the step's batch `number`, in the order of next().
  BatchWeight weight_of(int64_t number) const {
    const auto counted = shares_.counted(first_ + number % per_part_);
    return {.part = counted * shares_.num_parts(), .whole = num_samples_};
  }
  void load_all();
  std::vector<at::Tensor> count_targets() const;  // of the loaded batches

  const Model& model_;
  data::Loader& loader_;
  data::BatchShares shares_;
  std::string_view title_;   // of the model
  int64_t first_;            // batch of all parts of the epoch's rest
  int64_t per_part_;         // batches of the step
  int64_t num_samples_ = 0;  // of all batches on all ranks
  int64_t num_batches_, returned_ = 0;
  bool has_targets_;            // the model counts them
  bool counted_;                // targets or samples are counted
  std::vector<Batch> batches_;  // in the order of next(), if all are loaded at once
  at::Tensor total_targets_;    // of all batches on all ranks, if they are counted
  std::vector<at::Tensor> divisors_;
};

}  // namespace lockstep::trainer
