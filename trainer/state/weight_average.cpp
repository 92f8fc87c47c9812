#include "trainer/state/weight_average.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "lockstep/named_tensors.h"

namespace lockstep::trainer {
namespace {

void copy_each(const std::vector<at::Tensor>& to, const std::vector<at::Tensor>& from) {
  if (!to.empty()) at::_foreach_copy_(to, from);
}

}  // namespace

WeightAverage::WeightAverage(const EmaConfig& config, const Model& model)
    : config_(config), model_(tensors_of(model)) {
  const at::NoGradGuard no_grad;
  for (const auto& [name, tensor] : model_) {
    averages_.push_back(tensor.clone());
    auto* place = &copied_;
    if (tensor.is_floating_point() || tensor.is_complex()) {
      const auto same = std::find_if(averaged_.begin(), averaged_.end(), [&](const SameType& each) {
        return each.model.front().scalar_type() == tensor.scalar_type();
      });
      place = same == averaged_.end() ? &averaged_.emplace_back() : &*same;
    }
    place->average.push_back(averages_.back());
    place->model.push_back(tensor);
  }
}

double WeightAverage::decay_now() const {
  const auto n = static_cast<double>(num_updates_);
  return config_.warmup ? std::min(*config_.decay, (1 + n) / (10 + n)) : *config_.decay;
}

void WeightAverage::after_step(HookContext& run) {
  if (run.step % config_.every != 0) return;
  const at::NoGradGuard no_grad;
  for (const auto& [average, model] : averaged_) {
    if (num_updates_ == 0)
      copy_each(average, model);
    else
      at::_foreach_lerp_(average, model, 1 - decay_now());
  }
  copy_each(copied_.average, copied_.model);
  ++num_updates_;
}

NamedTensors WeightAverage::tensors() const {
  if (num_updates_ == 0) return model_;
  NamedTensors tensors;
  for (size_t i = 0; i < model_.size(); ++i) tensors.emplace_back(model_[i].first, averages_[i]);
  return tensors;
}

void WeightAverage::exchange() {
  if (num_updates_ == 0) return;
  const at::NoGradGuard no_grad;
  for (size_t i = 0; i < model_.size(); ++i) {
    auto& tensor = model_[i].second;
    const auto kept = tensor.clone();
    tensor.copy_(averages_[i]);
    averages_[i].copy_(kept);
  }
}

}  // namespace lockstep::trainer
