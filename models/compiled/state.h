// The parameters and buffers of a package in a module tree, under their names in Python.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <memory>
#include <string>
#include <vector>

#include "lockstep/model.h"
#include "models/package/package.h"

namespace lockstep::models {

struct CompiledState {
  std::vector<at::Tensor> tensors;  // parameters, then buffers, as in the manifest
  std::vector<Block*> blocks;       // of each of `tensors`; null: none, or a buffer
  std::vector<at::Tensor> changed;  // buffers that training changes
};

// Registers them in `root`, with the values in the package; those of parameters may be read later
// (models/filling.h). The units of the package become blocks. Throws Config: an invalid name, an
// unsupported type.
CompiledState register_state(torch::nn::Module& root,
                             const std::shared_ptr<const CompiledPackage>& package);

// Throws Config. `package`: its name.
at::ScalarType scalar_type_of(const TensorSpec& spec, const std::string& package);

}  // namespace lockstep::models
