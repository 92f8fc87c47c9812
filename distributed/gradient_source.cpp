#include "distributed/gradient_source.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <utility>

namespace lockstep {
namespace {

// The engine calls it once.
class GradientSource final : public torch::autograd::Node {
 public:
  GradientSource(torch::autograd::edge_list edges, std::vector<at::Tensor> gradients)
      : Node(std::move(edges)), gradients_(std::move(gradients)) {}

  torch::autograd::variable_list apply(torch::autograd::variable_list&&) override {
    return std::exchange(gradients_, {});
  }

 private:
  std::vector<at::Tensor> gradients_;
};

}  // namespace

at::Tensor make_root(const std::vector<at::Tensor>& parameters, std::vector<at::Tensor> gradients) {
  torch::autograd::edge_list edges;
  for (const auto& parameter : parameters)
    edges.push_back(torch::autograd::impl::gradient_edge(parameter));
  std::reverse(edges.begin(), edges.end());
  std::reverse(gradients.begin(), gradients.end());
  auto root = at::zeros({}, parameters.front().options());
  const auto source = std::make_shared<GradientSource>(std::move(edges), std::move(gradients));
  torch::autograd::create_gradient_edge(root, source);
  return root;
}

void add_to_parameters(std::vector<at::Tensor>& parameters, std::vector<at::Tensor> gradients) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> sums, added;
  for (size_t i = 0; i < parameters.size(); ++i) {
    auto& gradient = parameters[i].mutable_grad();
    if (!gradient.defined()) {
      gradient = std::move(gradients[i]);
      continue;
    }
    sums.push_back(gradient);
    added.push_back(std::move(gradients[i]));
  }
  if (!sums.empty()) at::_foreach_add_(sums, added);
}

}  // namespace lockstep
