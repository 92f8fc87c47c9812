// How gradients that no autograd made reach the parameters, and other nodes of ours in its graph.
// Only files of distributed/ include this.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

namespace lockstep {

// A scalar whose backward() hands `gradients` to `parameters`, one each, the last one first: what
// listens to autograd, as c10d::Reducer does, sees an ordinary backward pass. They are moved on,
// not copied.
at::Tensor make_root(const std::vector<at::Tensor>& parameters, std::vector<at::Tensor> gradients);

// `loss` again; when backward() of it has gone through the whole graph, and before it returns,
// `act` is called.
at::Tensor with_last_act(const at::Tensor& loss, std::function<void()> act);

// Each parameter's gradient becomes the given one, or grows by it.
void add_to_parameters(std::vector<at::Tensor>& parameters, std::vector<at::Tensor> gradients);

}  // namespace lockstep
