// `train.precision`: what a model computes in.
#pragma once

#include <string>

#include "lockstep/config_value.h"
#include "lockstep/model.h"

namespace lockstep::trainer {

enum class Precision { Float32, BFloat16, Float16 };
constexpr auto choices(Precision) { return std::array{"fp32", "bf16", "fp16"}; }

// model.forward(batch) with "fp32"; with "bf16" and "fp16" under autocast, as Python's `with
// torch.autocast(device, torch.bfloat16)` around model and loss: matrix products and convolutions
// in 16 bits, what needs the range of float32 in that, as LibTorch's lists for the batch's device
// say. Parameters, gradients and loss are float32 with all of them; training with "fp16" scales the
// loss (trainer/state/loss_scaler.h).
Outputs forward_in(Precision precision, Model& model, const Batch& batch);

}  // namespace lockstep::trainer
