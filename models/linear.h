// torch::nn::Linear with the forward pass of Python's: at::linear. LibTorch's calls addmm, which
// under autocast casts bias and weight in another order; their gradients then arrive in another
// order, buckets are arranged otherwise, and on three ranks and more sums differ in the last bits.
#pragma once

#include <ATen/ops/linear.h>
#include <torch/nn/modules/linear.h>

namespace lockstep {

struct Linear final : torch::nn::LinearImpl {
  Linear(int64_t in, int64_t out) : torch::nn::LinearImpl(in, out) {}

  // x [..., in] -> [..., out]
  at::Tensor forward(const at::Tensor& x) { return at::linear(x, weight, bias); }
};

}  // namespace lockstep
