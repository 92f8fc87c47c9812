#include "trainer/loop/graphed_passes.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <set>
#include <utility>

#include "core/printable.h"
#include "lockstep/error.h"
#include "trainer/checkpoint/training_state.h"
#include "trainer/config/precision.h"

namespace lockstep::trainer {
namespace {

bool same_shape(const Batch& a, const Batch& b) {
  return std::ranges::equal(a.fields, b.fields, [](const auto& x, const auto& y) {
    return x.first == y.first && x.second.sizes() == y.second.sizes() &&
           x.second.strides() == y.second.strides() &&
           x.second.scalar_type() == y.second.scalar_type();
  });
}

// Allocates separate memory for each field.
Batch place_for(const Batch& batch) {
  Batch place{.fields = {}, .indices = batch.indices};
  for (const auto& [name, tensor] : batch.fields)
    place.fields.emplace_back(name, at::empty_like(tensor));
  return place;
}

// Runs the remaining segments of a backward pass and merges their gradients.
StepOutputs whole(StepOutputs step) {
  for (const auto& segment : step.remaining_segments) {
    auto before = segment();
    std::ranges::move(step.gradients, std::back_inserter(before));
    step.gradients = std::move(before);
  }
  step.remaining_segments.clear();
  return step;
}

}  // namespace

GraphedPasses::GraphedPasses(Model& model, GraphedPassesOptions options)
    : model_(model), options_(std::move(options)) {
  for (const auto& [name, parameter] : trainable_parameters(model)) {
    names_.push_back(name);
    parameters_.push_back(parameter);
  }
}

std::optional<std::string> GraphedPasses::take_reason() { return std::exchange(reason_, {}); }

std::optional<StepOutputs> GraphedPasses::pass(const Batch& batch, const at::Tensor& weight) {
  auto* const recording = gave_up_ ? nullptr : recording_of(batch);
  if (!recording || recording->passes++ < kPassesBefore) return std::nullopt;
  const at::NoGradGuard no_grad;
  if (!recording->graph) {
    recording->batch = place_for(batch);
    recording->weight = at::empty_like(weight);
  }
  for (size_t i = 0; i < batch.fields.size(); ++i)
    recording->batch.fields[i].second.copy_(batch.fields[i].second, /*non_blocking=*/true);
  recording->weight.copy_(weight, /*non_blocking=*/true);
  if (!recording->graph && !record(*recording)) return std::nullopt;
  recording->graph->replay();
  auto gradients = recording->gradients;
  // Multiplying by one copies the bits, with one launch for many tensors.
  if (options_.keeps_gradients) gradients = at::_foreach_mul(gradients, 1);
  return StepOutputs{
      .outputs = recording->outputs, .gradients = std::move(gradients), .remaining_segments = {}};
}

GraphedPasses::Recording* GraphedPasses::recording_of(const Batch& batch) {
  const auto known = std::ranges::find_if(
      recordings_, [&](const Recording& recording) { return same_shape(recording.batch, batch); });
  if (known != recordings_.end()) return &*known;
  if (recordings_.size() == kMaxShapes) return nullptr;
  auto& recording = recordings_.emplace_back();
  recording.batch = batch;  // for its shape, until memory is allocated
  return &recording;
}

bool GraphedPasses::record(Recording& recording) {
  try {
    auto graph = options_.make();
    recording.gradients = graph->record([&] { return pass_for(recording); });
    recording.graph = std::move(graph);
    return true;
  } catch (const std::exception& error) {
    const std::string text = error.what();
    reason_ = printable(text.substr(0, text.find('\n')), 300);
  }
  gave_up_ = true;
  recordings_.clear();
  return false;
}

std::vector<at::Tensor> GraphedPasses::pass_for(Recording& recording) {
  const auto& [batch, weight] = std::tie(recording.batch, recording.weight);
  StepOutputs step;
  {
    const at::AutoGradMode with_grad(true);
    if (model_.has_backward()) {
      step = whole(model_.forward_backward(batch, weight));
    } else {
      step.outputs = forward_in(options_.precision, model_, batch);
      step.gradients = gradients_of(step.outputs, weight);
    }
  }
  auto& outputs = recording.outputs = std::move(step.outputs);
  outputs.predictions.reset();  // large, and would be kept alive
  for (auto* tensor : {&outputs.loss, &outputs.targets})
    if (tensor->defined()) *tensor = tensor->detach();
  for (auto& [name, sum] : outputs.sums) sum = sum.detach();
  return std::move(step.gradients);
}

// One for each parameter, with its layout and in separate memory: they are modified in place later.
std::vector<at::Tensor> GraphedPasses::gradients_of(const Outputs& outputs,
                                                    const at::Tensor& weight) const {
  auto gradients = torch::autograd::grad({outputs.loss}, parameters_, {weight},
                                         /*retain_graph=*/std::nullopt, /*create_graph=*/false,
                                         /*allow_unused=*/true);
  std::set<const void*> places;
  for (size_t i = 0; i < gradients.size(); ++i) {
    auto& gradient = gradients[i];
    if (!gradient.defined())
      throw config_error(fmt::format("parameter '{}' gets no gradient", names_[i]));
    const bool fits = gradient.strides() == parameters_[i].strides() &&
                      places.insert(gradient.storage().data()).second;
    if (!fits) gradient = at::empty_like(parameters_[i]).copy_(gradient);
  }
  return gradients;
}

}  // namespace lockstep::trainer
