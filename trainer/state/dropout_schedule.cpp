#include "trainer/state/dropout_schedule.h"

#include <fmt/format.h>
#include <torch/nn/modules/dropout.h>

#include <cmath>
#include <numbers>
#include <utility>

#include "lockstep/error.h"

namespace lockstep::trainer {
namespace {

// Null if `module` is not a `Module`.
template <class Module>
torch::nn::DropoutOptions* options_if(torch::nn::Module& module) {
  auto* const found = module.as<Module>();
  return found ? &found->options : nullptr;
}

// The settings of a dropout module; null for other modules.
torch::nn::DropoutOptions* dropout_options(torch::nn::Module& module) {
  using Find = torch::nn::DropoutOptions* (*)(torch::nn::Module&);
  constexpr Find kKinds[] = {
      options_if<torch::nn::DropoutImpl>, options_if<torch::nn::Dropout2dImpl>,
      options_if<torch::nn::Dropout3dImpl>, options_if<torch::nn::AlphaDropoutImpl>,
      options_if<torch::nn::FeatureAlphaDropoutImpl>};
  for (const auto find : kKinds)
    if (auto* const options = find(module)) return options;
  return nullptr;
}

}  // namespace

std::shared_ptr<DropoutSchedule> DropoutSchedule::create(const DropoutConfig& config, Model& model,
                                                         const std::string& title,
                                                         bool cuda_graph) {
  if (!config.schedule) return nullptr;
  if (model.has_backward())
    throw config_error(
        "train.dropout has no effect on a compiled model, whose dropout is a part of the package: "
        "remove it");
  if (cuda_graph)
    throw config_error(
        "train.dropout cannot be combined with train.cuda_graph, which replays the same dropout in "
        "every step; remove one");
  std::shared_ptr<DropoutSchedule> schedule(new DropoutSchedule(config));
  for (const auto& module : model.modules()) {
    auto* const options = dropout_options(*module);
    if (options && options->p() > 0)
      schedule->layers_.push_back({options->p(), [module, options](double p) { options->p(p); }});
  }
  if (schedule->layers_.empty())
    throw config_error(
        fmt::format("train.dropout has no effect: {} has no dropout; set the dropout of the model, "
                    "or remove train.dropout",
                    title));
  return schedule;
}

double DropoutSchedule::factor(int64_t step) const {
  const auto& [schedule, start, end, after, steps] = config_;
  const auto changed = step - after;
  if (changed < 0) return start;
  if (changed >= steps) return end;
  const auto progress = static_cast<double>(changed) / static_cast<double>(steps);
  if (*schedule == DropoutChange::Linear) return start + (end - start) * progress;
  return end + (start - end) * 0.5 * (1 + std::cos(std::numbers::pi * progress));
}

void DropoutSchedule::before_step(HookContext& run) {
  const auto scale = factor(run.step);
  for (const auto& layer : layers_) layer.set(layer.probability * scale);
}

}  // namespace lockstep::trainer
