// `train.precision`: the number format of the forward and backward pass; `train.matmul`.
#pragma once

#include <string>

#include "lockstep/config_value.h"
#include "lockstep/model.h"

namespace lockstep::trainer {

enum class Precision { Float32, BFloat16, Float16 };
constexpr auto choices(Precision) { return std::array{"fp32", "bf16", "fp16"}; }

enum class Matmul { Torch, OneDnn };  // see trainer/prepared/matmul_choice.h
constexpr auto choices(Matmul) { return std::array{"torch", "onednn"}; }

// Calls model.forward(batch). With "bf16" and "fp16", under autocast, like Python's `with
// torch.autocast(device, torch.bfloat16)` around model and loss: matrix products and convolutions
// run in 16 bits, operations that need the range of float32 in float32, according to LibTorch's
// lists for the batch's device. Parameters, gradients and loss are always float32; training with
// "fp16" scales the loss (trainer/state/loss_scaler.h).
Outputs forward_in(Precision precision, Model& model, const Batch& batch);

}  // namespace lockstep::trainer
