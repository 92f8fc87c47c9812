#include "distributed/gradients/gradient_source.h"
#include "distributed/torch_versions.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
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

}  // namespace

GivenGradients::GivenGradients(size_t num_parameters, std::vector<at::Tensor> last,
                               std::vector<Segment> remaining_segments)
    : gradients_(num_parameters),
      remaining_segments_(std::move(remaining_segments)),
      first_(num_parameters) {
  store(std::move(last));
}

void GivenGradients::store(std::vector<at::Tensor> computed) {
  check(!computed.empty() && computed.size() <= first_,
        "a segment returned no gradients, or more than there are parameters left");
  first_ -= computed.size();
  std::move(computed.begin(), computed.end(),
            gradients_.begin() + static_cast<std::ptrdiff_t>(first_));
}

void GivenGradients::compute_next() {
  check(next_segment_ < remaining_segments_.size(),
        "the segments returned fewer gradients than there are trainable parameters");
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
