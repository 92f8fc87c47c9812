#include "trainer/state/step_gradients.h"

#include <ATen/ATen.h>

#include "distributed/collectives.h"

namespace lockstep::trainer {

StepGradients::StepGradients(const NamedTensors& parameters) {
  for (const auto& [name, parameter] : parameters)
    if (parameter.grad().defined()) gradients_.push_back(parameter.grad());
  own_ = gradients_;
}

StepGradients::StepGradients(const NamedTensors& parameters, const distributed::Sharding* sharding)
    : StepGradients(parameters) {
  if (!sharding) return;
  auto& flat = *sharding->trained;
  if (!sharding->has_shared_gradients && !flat.has_own_gradients()) return;
  world_ = &sharding->ranks();
  if (flat.has_own_gradients()) divided_ = &flat;
  own_.clear();
  for (size_t i = 0; i < flat.slices().size(); ++i)
    if (const auto gradient = flat.slice_gradient(i); gradient.defined()) own_.push_back(gradient);
  if (divided_) return;
  for (size_t i = 0; i < parameters.size(); ++i)
    if (parameters[i].second.grad().defined()) is_measured_here_.push_back(flat.owns(i));
}

at::Device StepGradients::device() const {
  return world_ ? world_->device() : gradients_.front().device();
}

void StepGradients::visit_measured(const distributed::FlatParameters::VisitGradient& visit) const {
  if (divided_) return divided_->visit_owned_gradients(visit);
  for (size_t i = 0; i < gradients_.size(); ++i)
    if (is_measured_here_[i]) visit(i, gradients_[i]);
}

at::Tensor StepGradients::norms() const {
  if (!world_) return at::stack(at::_foreach_norm(gradients_, 2));
  const auto like = divided_ ? values_of(divided_->parameters()) : gradients_;
  auto type = like.front().scalar_type();
  for (const auto& tensor : like) type = at::promote_types(type, tensor.scalar_type());
  auto norms = at::zeros({static_cast<int64_t>(like.size())}, at::device(device()).dtype(type));
  visit_measured([&](size_t index, const at::Tensor& gradient) {
    norms[static_cast<int64_t>(index)] = at::_foreach_norm({gradient}, 2).front();
  });
  // Exact: one rank has the value, the others 0.
  distributed::all_reduce(*world_, norms, distributed::ReduceOp::Sum, "gradient norms");
  return norms;
}

at::Tensor StepGradients::max_of_ranks(at::Tensor value) const {
  if (world_) distributed::all_reduce(*world_, value, distributed::ReduceOp::Max, "gradients");
  return value;
}

}  // namespace lockstep::trainer
