#include "trainer/prepared/frozen_parameters.h"

#include <algorithm>
#include <functional>
#include <string>

#include "lockstep/error.h"
#include "trainer/checkpoint/chosen_weights.h"

namespace lockstep::trainer {
namespace {

using IsFrozen = std::function<bool(const std::string& parameter)>;

// `key`: of the run file; it chooses some parameters.
void freeze(Model& model, const std::string& key, const IsFrozen& is_frozen) {
  if (model.has_backward())
    throw config_error(key +
                       " has no effect on a compiled model: which weights have gradients is fixed "
                       "when it is compiled");
  for (auto& parameter : model.named_parameters())
    if (is_frozen(parameter.key())) parameter.value().requires_grad_(false);
  const auto parameters = model.parameters();
  if (std::none_of(parameters.begin(), parameters.end(),
                   [](const at::Tensor& parameter) { return parameter.requires_grad(); }))
    throw config_error(key + ": no trainable weights remain");
}

}  // namespace

void freeze_parameters(Model& model, const RunConfig& config) {
  const auto names = model.named_parameters().keys();
  const auto& frozen = config.train.freeze;
  if (!frozen.empty()) {
    if (!model.has_backward()) verify_chosen("train.freeze", frozen, names);
    freeze(model, "train.freeze", [&](const auto& name) { return is_chosen(name, frozen); });
  }
  config.optimizer.verify_groups(names);
  const auto is_frozen = [&](const auto& name) { return config.optimizer.is_frozen(name); };
  if (std::ranges::any_of(names, is_frozen)) freeze(model, "optimizer.groups: frozen", is_frozen);
}

}  // namespace lockstep::trainer
