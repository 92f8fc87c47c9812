// Named tensors of a module, in registration order.
//
// Example:
//   int64_t count_parameters(const torch::nn::Module& module) {
//     int64_t count = 0;
//     for (const auto& [name, tensor] : lockstep::trainable_parameters(module))
//       count += tensor.numel();
//     return count;
//   }
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <string>
#include <utility>
#include <vector>

namespace lockstep {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

// Parameters, then buffers. The tensors are detached and share memory with the module.
NamedTensors tensors_of(const torch::nn::Module& module);

// The parameters that require gradients, not detached.
NamedTensors trainable_parameters(const torch::nn::Module& module);

// The tensor called `name`, or nullptr.
const at::Tensor* find_tensor(const NamedTensors& tensors, const std::string& name);

// The tensors without their names.
std::vector<at::Tensor> values_of(const NamedTensors& tensors);

}  // namespace lockstep
