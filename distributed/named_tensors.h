// Tensors of a module by name, in the module's order.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <string>
#include <utility>
#include <vector>

namespace lockstep {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

// Parameters, then buffers: the live ones, detached.
NamedTensors tensors_of(const torch::nn::Module& module);

// The parameters that are trained: the live ones.
NamedTensors trainable_parameters(const torch::nn::Module& module);

// The tensors without their names.
std::vector<at::Tensor> values_of(const NamedTensors& tensors);

}  // namespace lockstep
