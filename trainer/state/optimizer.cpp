#include "lockstep/optimizer.h"

#include <fmt/format.h>

#include <algorithm>

#include "lockstep/error.h"

namespace lockstep {

OptimizerRegistry& optimizer_registry() {
  static OptimizerRegistry registry("optimizer");
  return registry;
}

bool has_state(const NamedTensors& state, const std::string& kind, const std::string& parameter) {
  return find_tensor(state, kind + "." + parameter) != nullptr;
}

at::Tensor find_state(const NamedTensors& state, const std::string& kind,
                      const std::string& parameter, at::IntArrayRef shape) {
  const auto name = kind + "." + parameter;
  const auto* tensor = find_tensor(state, name);
  if (!tensor) {
    const bool has_kind = std::ranges::any_of(
        state, [&](const auto& item) { return item.first.starts_with(kind + "."); });
    throw config_error(fmt::format(
        "the checkpoint has no optimizer state '{}': was it saved with another optimizer{}", name,
        has_kind ? ", or was the parameter frozen? Then keep it frozen, or start a new run with "
                   "train.init_from"
                 : "?"));
  }
  if (tensor->sizes() != shape)
    throw config_error(fmt::format(
        "the shape of optimizer state '{}' in the checkpoint does not match the model", name));
  return *tensor;
}

}  // namespace lockstep
