#include "distributed/gradients/gradient_source.h"
#include "distributed/torch_versions.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <string>
#include <utility>

#include "lockstep/error.h"

namespace lockstep::distributed {
namespace {

// Produces one gradient; the engine calls it once.
class GradientSource final : public torch::autograd::Node {
 public:
  GradientSource(uint64_t sequence, torch::autograd::Edge edge,
                 std::shared_ptr<GivenGradients> gradients)
      : Node(sequence, {std::move(edge)}), gradients_(std::move(gradients)), index_(sequence) {}

  torch::autograd::variable_list apply(torch::autograd::variable_list&&) override {
    return {gradients_->take(index_)};
  }

 private:
  std::shared_ptr<GivenGradients> gradients_;
  size_t index_;
};

// Triggers all sources.
class GradientSources final : public torch::autograd::Node {
 public:
  using Node::Node;

  torch::autograd::variable_list apply(torch::autograd::variable_list&&) override {
    return torch::autograd::variable_list(num_outputs());
  }
};

// Accumulates the gradients from gradients.first() to `end`.
void accumulate_available(const NamedTensors& parameters, GivenGradients& gradients, size_t end) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> sums, added;
  for (size_t i = gradients.first(); i < end; ++i) {
    auto& gradient = parameters[i].second.mutable_grad();
    if (!gradient.defined()) {
      gradient = gradients.take(i);
      continue;
    }
    sums.push_back(gradient);
    added.push_back(gradients.take(i));
  }
  if (!sums.empty()) at::_foreach_add_(sums, added);
}

// "Float [2, 3] on cpu"
std::string gradient_text(const at::Tensor& tensor) {
  if (!tensor.defined()) return "an undefined tensor";
  return fmt::format("{} [{}] on {}", c10::toString(tensor.scalar_type()),
                     fmt::join(tensor.sizes(), ", "), tensor.device().str());
}

void verify_gradient(const std::string& name, const at::Tensor& parameter,
                     const at::Tensor& gradient) {
  if (gradient.defined() && gradient.sizes() == parameter.sizes() &&
      gradient.scalar_type() == parameter.scalar_type() && gradient.device() == parameter.device())
    return;
  throw config_error(
      fmt::format("forward_backward() returned {} as the gradient of '{}', expected {}",
                  gradient_text(gradient), name, gradient_text(parameter)));
}

}  // namespace

GivenGradients::GivenGradients(const NamedTensors& parameters, std::vector<at::Tensor> last,
                               std::vector<Segment> remaining_segments)
    : parameters_(parameters),
      gradients_(parameters.size()),
      remaining_segments_(std::move(remaining_segments)),
      first_(parameters.size()) {
  store(std::move(last));
}

void GivenGradients::store(std::vector<at::Tensor> computed) {
  if (computed.empty() || computed.size() > first_)
    throw config_error(
        fmt::format("forward_backward() or one of its segments returned {} gradients, expected 1 "
                    "to {}: {} of {} trainable parameters have none yet",
                    computed.size(), first_, first_, parameters_.size()));
  first_ -= computed.size();
  for (size_t i = 0; i < computed.size(); ++i)
    verify_gradient(parameters_[first_ + i].first, parameters_[first_ + i].second, computed[i]);
  std::move(computed.begin(), computed.end(),
            gradients_.begin() + static_cast<std::ptrdiff_t>(first_));
}

void GivenGradients::compute_next() {
  if (next_segment_ == remaining_segments_.size())
    throw config_error(
        fmt::format("forward_backward() and its segments returned {} gradients, but there are {} "
                    "trainable parameters",
                    parameters_.size() - first_, parameters_.size()));
  const auto segment = std::exchange(remaining_segments_[next_segment_++], {});
  store(segment());
}

at::Tensor GivenGradients::take(size_t index) {
  while (index < first_) compute_next();
  return std::exchange(gradients_[index], {});
}

at::Tensor make_autograd_root(const NamedTensors& parameters,
                              const std::shared_ptr<GivenGradients>& gradients) {
  torch::autograd::edge_list sources;
  for (size_t i = 0; i < parameters.size(); ++i)
    // The engine runs ready nodes in descending sequence number, gradient accumulation first.
    sources.emplace_back(
        make_node<GradientSource>(i, torch::autograd::impl::gradient_edge(parameters[i].second),
                                  gradients),
        0);
  const auto& like = parameters.front().second;
  for (const auto& source : sources) source.function->add_input_metadata(like);
  auto root = at::zeros({}, like.options());
  torch::autograd::create_gradient_edge(
      root, make_node<GradientSources>(parameters.size(), std::move(sources)));
  return root;
}

void add_to_parameters(const NamedTensors& parameters, GivenGradients& gradients,
                       const std::function<void(size_t first)>& before_segment) {
  accumulate_available(parameters, gradients, parameters.size());
  while (const auto first = gradients.first()) {
    if (before_segment) before_segment(first);
    gradients.compute_next();
    accumulate_available(parameters, gradients, first);
  }
}

}  // namespace lockstep::distributed
