// `weight_decay_on`: which parameters an optimizer decays.
#pragma once

#include <ATen/core/Tensor.h>

#include "lockstep/config_value.h"

namespace lockstep::trainer {

// All parameters, or only those with two or more dimensions: no biases and norms.
enum class WeightDecay { All, Matrices };
constexpr auto choices(WeightDecay) { return std::array{"all", "matrices"}; }
inline constexpr const char* kDecayHelp =
    "all: weight decay applies to all parameters; matrices: not to one-dimensional ones (biases, "
    "norms)";

bool is_decayed(WeightDecay on, const at::Tensor& parameter);

}  // namespace lockstep::trainer
