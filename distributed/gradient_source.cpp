#include "distributed/gradient_source.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/variable.h>

#include <utility>

namespace lockstep {
namespace {

// Hands one gradient on; the engine calls it once.
class GradientSource final : public torch::autograd::Node {
 public:
  GradientSource(uint64_t sequence, torch::autograd::Edge edge, at::Tensor gradient)
      : Node(sequence, {std::move(edge)}), gradient_(std::move(gradient)) {}

  torch::autograd::variable_list apply(torch::autograd::variable_list&&) override {
    return {std::exchange(gradient_, {})};
  }

 private:
  at::Tensor gradient_;
};

// Lets all of them go.
class GradientSources final : public torch::autograd::Node {
 public:
  using Node::Node;

  torch::autograd::variable_list apply(torch::autograd::variable_list&&) override {
    return torch::autograd::variable_list(num_outputs());
  }
};

// Has `act` called at the end of the backward pass that it is in.
class LastAct final : public torch::autograd::Node {
 public:
  LastAct(torch::autograd::Edge edge, std::function<void()> act)
      : Node(torch::autograd::edge_list{std::move(edge)}), act_(std::move(act)) {}

  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
    torch::autograd::Engine::get_default_engine().queue_callback(act_);
    return std::move(gradients);
  }

 private:
  std::function<void()> act_;
};

}  // namespace

at::Tensor with_last_act(const at::Tensor& loss, std::function<void()> act) {
  auto root = loss.detach();
  torch::autograd::create_gradient_edge(
      root, std::make_shared<LastAct>(torch::autograd::impl::gradient_edge(loss), std::move(act)));
  return root;
}

at::Tensor make_root(const std::vector<at::Tensor>& parameters, std::vector<at::Tensor> gradients) {
  torch::autograd::edge_list sources;
  for (size_t i = 0; i < parameters.size(); ++i)
    // The engine takes what is ready by falling sequence, and what accumulates before all else.
    sources.emplace_back(
        std::make_shared<GradientSource>(i, torch::autograd::impl::gradient_edge(parameters[i]),
                                         std::move(gradients[i])),
        0);
  for (const auto& source : sources) source.function->add_input_metadata(parameters.front());
  auto root = at::zeros({}, parameters.front().options());
  torch::autograd::create_gradient_edge(
      root, std::make_shared<GradientSources>(parameters.size(), std::move(sources)));
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
