#include "lockstep/named_tensors.h"

#include <algorithm>
#include <unordered_set>

namespace lockstep {

NamedTensors tensors_of(const torch::nn::Module& module) {
  NamedTensors tensors;
  for (const auto& item : module.named_parameters())
    tensors.emplace_back(item.key(), item.value().detach());
  for (const auto& item : module.named_buffers())
    tensors.emplace_back(item.key(), item.value().detach());
  return tensors;
}

NamedTensors trainable_parameters(const torch::nn::Module& module) {
  NamedTensors parameters;
  std::unordered_set<const c10::TensorImpl*> seen;  // a module may have one under two names
  for (const auto& item : module.named_parameters())
    if (item.value().requires_grad() && seen.insert(item.value().unsafeGetTensorImpl()).second)
      parameters.emplace_back(item.key(), item.value());
  return parameters;
}

const at::Tensor* find_tensor(const NamedTensors& tensors, const std::string& name) {
  const auto found = std::ranges::find(tensors, name, &NamedTensors::value_type::first);
  return found == tensors.end() ? nullptr : &found->second;
}

std::vector<at::Tensor> values_of(const NamedTensors& tensors) {
  std::vector<at::Tensor> values;
  for (const auto& [name, tensor] : tensors) values.push_back(tensor);
  return values;
}

}  // namespace lockstep
