#include "trainer/state/step_gradients.h"

#include <ATen/ATen.h>

#include "distributed/collectives.h"

namespace lockstep::trainer {

StepGradients::StepGradients(const NamedTensors& parameters) {
  for (const auto& [name, parameter] : parameters)
    if (parameter.grad().defined()) gradients_.push_back(parameter.grad());
  own_ = gradients_;
}

StepGradients::StepGradients(World& world, const NamedTensors& parameters,
                             const distributed::FlatParameters* shared)
    : StepGradients(parameters) {
  if (!shared) return;
  world_ = &world;
  own_.clear();
  for (size_t i = 0; i < parameters.size(); ++i)
    if (parameters[i].second.grad().defined())
      is_measured_here_.push_back(shared->owner_of(i) == world.rank());
  for (const auto& slice : shared->slices())
    if (const auto& gradient = parameters[slice.parameter].second.grad(); gradient.defined())
      own_.push_back(distributed::slice_of(gradient, slice));
}

at::Tensor StepGradients::norms() const {
  if (!world_) return at::stack(at::_foreach_norm(gradients_, 2));
  std::vector<at::Tensor> measured;
  for (size_t i = 0; i < gradients_.size(); ++i)
    if (is_measured_here_[i]) measured.push_back(gradients_[i]);
  const auto found = measured.empty() ? std::vector<at::Tensor>() : at::_foreach_norm(measured, 2);
  auto type = gradients_.front().scalar_type();
  for (const auto& gradient : gradients_) type = at::promote_types(type, gradient.scalar_type());
  auto norms = at::zeros({static_cast<int64_t>(gradients_.size())}, at::dtype(type));
  auto next = found.begin();
  for (size_t i = 0; i < gradients_.size(); ++i)
    if (is_measured_here_[i]) norms[static_cast<int64_t>(i)] = *next++;
  // Exact: one rank has the value, the others 0.
  distributed::all_reduce(*world_, norms, distributed::ReduceOp::Sum, "gradient norms");
  return norms;
}

at::Tensor StepGradients::max_of_ranks(at::Tensor value) const {
  if (world_) distributed::all_reduce(*world_, value, distributed::ReduceOp::Max, "gradients");
  return value;
}

}  // namespace lockstep::trainer
