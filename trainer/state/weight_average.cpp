#include "trainer/state/weight_average.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <utility>

#include "lockstep/named_tensors.h"

namespace lockstep::trainer {
namespace {

void copy_each(const std::vector<at::Tensor>& to, const std::vector<at::Tensor>& from) {
  if (!to.empty()) at::_foreach_copy_(to, from);
}

}  // namespace

WeightAverage::WeightAverage(const EmaConfig& config, const Model& model,
                             const distributed::Sharding* sharding, std::vector<at::Tensor> shared)
    : config_(config), sharding_(sharding), model_(tensors_of(model)), averages_(model_.size()) {
  const at::NoGradGuard no_grad;
  if (!shared.empty())
    share_parameters(model, std::move(shared));
  else if (sharding_ && sharding_->weights)
    divide_parameters();
  for (size_t i = 0; i < model_.size(); ++i) {
    if (averages_[i].defined()) continue;
    averages_[i] = model_[i].second.clone();
    add(averages_[i], model_[i].second);
  }
}

at::Tensor& WeightAverage::average_of(const std::string& name) {
  const auto found = std::ranges::find(model_, name, &NamedTensors::value_type::first);
  return averages_[static_cast<size_t>(found - model_.begin())];
}

// Places the averages of the trainable parameters in shared memory.
void WeightAverage::share_parameters(const Model& model, std::vector<at::Tensor> averages) {
  shared_ = sharding_->trained.get();
  const auto parameters = trainable_parameters(model);
  for (size_t i = 0; i < parameters.size(); ++i) {
    const auto& [name, parameter] = parameters[i];
    averages[i] = averages[i].as_strided(parameter.sizes(), parameter.strides());
    average_of(name) = averages[i];
  }
  for (size_t i = 0; i < shared_->slices().size(); ++i) {
    const auto& slice = shared_->slices()[i];
    add(distributed::slice_of(averages[slice.parameter], slice), shared_->slice(i));
  }
}

// Averages this rank's slices of divided weights. Frozen ones are their own average.
void WeightAverage::divide_parameters() {
  for (auto& [name, tensor] : sharding_->divided_weights()) {
    average_of(name) = tensor.whole;
    const auto& trained = sharding_->trained->parameters();
    const bool is_trained = find_tensor(trained, name) != nullptr;
    if (is_trained && tensor.own.defined()) {
      auto average = tensor.own.clone();
      add(average, tensor.own);
      tensor.own = average;
    }
    divided_.push_back({.list = "ema", .name = name, .tensor = std::move(tensor)});
  }
}

void WeightAverage::add(const at::Tensor& average, const at::Tensor& tensor) {
  auto* place = &copied_;
  if (tensor.is_floating_point() || tensor.is_complex()) {
    const auto same = std::ranges::find_if(averaged_, [&](const SameType& each) {
      return each.model.front().scalar_type() == tensor.scalar_type();
    });
    place = same == averaged_.end() ? &averaged_.emplace_back() : &*same;
  }
  place->average.push_back(average);
  place->model.push_back(tensor);
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
  is_exchanged_ = !is_exchanged_;
  const at::NoGradGuard no_grad;
  const auto swap = [](const SameType& lists) {
    for (size_t i = 0; i < lists.model.size(); ++i) {
      const auto kept = lists.model[i].clone();
      at::Tensor(lists.model[i]).copy_(lists.average[i]);
      at::Tensor(lists.average[i]).copy_(kept);
    }
  };
  if (shared_) shared_->publish("average of the weights");  // no rank reads the weights now
  std::ranges::for_each(averaged_, swap);
  swap(copied_);
  if (shared_) shared_->publish("average of the weights");
}

std::vector<at::Tensor> shared_averages(const distributed::Sharding* sharding) {
  if (!sharding || sharding->trained->copies() != distributed::Copies::PerHost) return {};
  return sharding->trained->allocate_per_host();
}

}  // namespace lockstep::trainer
