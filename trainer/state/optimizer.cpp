#include "trainer/state/optimizer.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.h"

namespace lockstep {

OptimizerRegistry& optimizer_registry() {
  static OptimizerRegistry registry("optimizer");
  return registry;
}

bool is_decayed(WeightDecay on, const at::Tensor& parameter) {
  return on == WeightDecay::All || parameter.dim() >= 2;
}

void verify_decay(WeightDecay on, double weight_decay) {
  if (on != WeightDecay::All && weight_decay == 0)
    throw config_error("optimizer.weight_decay_on has no effect without weight_decay");
}

bool has_state(const NamedTensors& state, const std::string& kind, const std::string& parameter) {
  const auto name = kind + "." + parameter;
  return std::any_of(state.begin(), state.end(),
                     [&](const auto& item) { return item.first == name; });
}

at::Tensor find_state(const NamedTensors& state, const std::string& kind,
                      const std::string& parameter, at::IntArrayRef shape) {
  const auto name = kind + "." + parameter;
  for (const auto& [key, tensor] : state) {
    if (key != name) continue;
    if (tensor.sizes() == shape) return tensor;
    throw config_error(fmt::format(
        "the checkpoint's optimizer state '{}' has another shape than the model", name));
  }
  throw config_error(fmt::format(
      "the checkpoint has no optimizer state '{}': was it made with another optimizer?", name));
}

}  // namespace lockstep
