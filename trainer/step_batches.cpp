#include "trainer/step_batches.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "trainer/gradients.h"

namespace lockstep {
namespace {

Batch next_of(Loader& loader) {
  auto batch = loader.next();
  check(batch.has_value(), "the loader ended before the plan did");
  return std::move(*batch);
}

}  // namespace

StepBatches::StepBatches(World& world, const Model& model, Loader& loader, const StepPlan& plan)
    : loader_(loader),
      num_batches_(std::min(plan.accumulate, loader.num_batches() - loader.position())),
      samples_(num_batches_ == 1 ? std::vector<int64_t>()
                                 : batch_counts(loader.num_samples(), plan.batch_size,
                                                loader.position(), num_batches_)),
      has_targets_(!model.target_name().empty()),
      counted_(has_targets_ || plan.may_lack_samples) {
  if (!counted_) return;
  std::vector<at::Tensor> targets;
  for (int64_t i = 0; i < num_batches_; ++i) {
    batches_.push_back(next_of(loader));
    const auto& batch = batches_.back();
    targets.push_back(has_targets_ ? model.count_targets(batch)
                                   : at::scalar_tensor(batch.size(), at::kLong));
  }
  divisors_ = target_divisors(world, targets);
}

Batch StepBatches::next() {
  check(!is_last(), "a step has no more batches");
  const auto number = static_cast<size_t>(given_++);
  auto batch = counted_ ? std::exchange(batches_[number], {}) : next_of(loader_);
  last_size_ = batch.size();
  return batch;
}

void StepBatches::verify(const Outputs& outputs) const {
  check(outputs.loss.defined() && outputs.count == last_size_,
        "a model in training must return the mean loss and the samples of its batch");
  check(outputs.targets.defined() == has_targets_,
        "a model returns its number of targets if, and only if, it has a name for them");
}

at::Tensor StepBatches::weighted(const at::Tensor& loss) const {
  if (!counted_) return num_batches_ == 1 ? loss : weighted_loss(loss, samples_, given_ - 1);
  return loss / divisors_[static_cast<size_t>(given_ - 1)].to(loss.scalar_type());
}

}  // namespace lockstep
