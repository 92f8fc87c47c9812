// How gradients that no autograd made reach the parameters. Only files of distributed/ include
// this.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace lockstep {

// A scalar whose backward() hands `gradients` to `parameters`, one each, the last one first: what
// listens to autograd, as c10d::Reducer does, sees an ordinary backward pass. They are moved on,
// not copied.
at::Tensor make_root(const std::vector<at::Tensor>& parameters, std::vector<at::Tensor> gradients);

// Each parameter's gradient becomes the given one, or grows by it.
void add_to_parameters(std::vector<at::Tensor>& parameters, std::vector<at::Tensor> gradients);

}  // namespace lockstep
