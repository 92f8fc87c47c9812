// `weight_decay_on`: which parameters an optimizer decays.
#pragma once

#include <ATen/core/Tensor.h>

#include "lockstep/config_value.h"

namespace lockstep::trainer {

// All parameters, or those of two and more dimensions: no biases and no norms.
enum class WeightDecay { All, Matrices };
constexpr auto choices(WeightDecay) { return std::array{"all", "matrices"}; }
inline constexpr const char* kDecayHelp =
    "matrices: weight decay spares parameters of one dimension, which are biases and norms";

bool is_decayed(WeightDecay on, const at::Tensor& parameter);

}  // namespace lockstep::trainer
