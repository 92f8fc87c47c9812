#include "trainer/loop/step_batches.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

#include "lockstep/error.h"
#include "trainer/loop/gradients.h"
#include "trainer/prepared/model_faults.h"

namespace lockstep::trainer {
namespace {

Batch next_of(data::Loader& loader) {
  auto batch = loader.next();
  check(batch.has_value(), "the loader ended before the plan did");
  return std::move(*batch);
}

}  // namespace

StepBatches::StepBatches(const Model& model, data::Loader& loader, const StepPlan& plan)
    : model_(model),
      loader_(loader),
      shares_(plan.shares),
      title_(plan.model),
      first_(loader.position() / shares_.parts_per_rank()),
      per_part_(std::min(plan.accumulate, shares_.num_batches() - first_)),
      num_batches_(per_part_ * shares_.parts_per_rank()),
      has_targets_(!model.target_name().empty()),
      counted_(has_targets_ || plan.may_skip_samples) {
  for (auto k = first_; k < first_ + per_part_; ++k) num_samples_ += shares_.counted_by_all(k);
}

StepBatches::StepBatches(const StepBatches& step, data::Loader& loader)
    : model_(step.model_),
      loader_(loader),
      shares_(step.shares_),
      title_(step.title_),
      first_(step.first_),
      per_part_(step.per_part_),
      num_samples_(step.num_samples_),
      num_batches_(per_part_),
      has_targets_(step.has_targets_),
      counted_(step.counted_),
      total_targets_(step.total_targets_) {
  if (!counted_) return;
  load_all();
  divisors_ = target_divisors(count_targets(), total_targets_, shares_.num_parts());
}

std::vector<int64_t> StepBatches::samples_of(int64_t part) const {
  std::vector<int64_t> samples;
  for (auto k = first_; k < first_ + per_part_; ++k) {
    const auto of_batch = loader_.samples_of(k * shares_.parts_per_rank() + part);
    samples.insert(samples.end(), of_batch.begin(), of_batch.end());
  }
  return samples;
}

// The loader alternates between parts.
void StepBatches::load_all() {
  const auto parts = num_batches_ / per_part_;
  batches_.resize(static_cast<size_t>(num_batches_));
  for (int64_t i = 0; i < per_part_; ++i)
    for (int64_t part = 0; part < parts; ++part)
      batches_[static_cast<size_t>(part * per_part_ + i)] = next_of(loader_);
}

void StepBatches::agree_on_weights(World& world) {
  if (counted_ || (per_part_ > 1 && per_part_ < num_batches_)) load_all();
  if (!counted_) return;
  const auto targets = count_targets();
  total_targets_ = total_targets(world, targets);
  divisors_ = target_divisors(targets, total_targets_, shares_.num_parts());
}

std::vector<at::Tensor> StepBatches::count_targets() const {
  std::vector<at::Tensor> targets;
  for (int64_t i = 0; i < num_batches_; ++i) {
    const auto& batch = batches_[static_cast<size_t>(i)];
    const auto count = has_targets_ ? trainer::count_targets(title_, model_, batch)
                                    : at::scalar_tensor(batch.size(), at::kLong);
    targets.push_back(weight_of(i).part > 0 ? count : at::zeros_like(count));
  }
  return targets;
}

Batch StepBatches::next() {
  check(!is_last(), "a step has no more batches");
  const auto number = static_cast<size_t>(returned_++);
  auto batch = batches_.empty() ? next_of(loader_) : std::exchange(batches_[number], {});
  return batch;
}

void StepBatches::verify(const Batch& batch, const Outputs& outputs, bool has_gradient) const {
  verify_outputs(title_, batch, outputs,
                 {.has_targets = has_targets_,
                  .has_gradient = has_gradient,
                  .device = batch.fields.empty() ? at::Device(at::kCPU)
                                                 : batch.fields.front().second.device()});
}

at::Tensor StepBatches::weighted(const at::Tensor& loss) const {
  if (!counted_ || !counts()) return weighted_loss(loss, weight_of(returned_ - 1));
  return loss / divisors_[static_cast<size_t>(returned_ - 1)].to(loss.scalar_type());
}

}  // namespace lockstep::trainer
