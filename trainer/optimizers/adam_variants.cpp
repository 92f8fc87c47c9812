#include "trainer/optimizers/adam_variants.h"

#include <ATen/ATen.h>

namespace lockstep::trainer {

AdamVariant::AdamVariant(const AdamVariantConfig& config, const NamedTensors& parameters)
    : ForeachOptimizer(parameters, config.lr, {config.weight_decay, config.weight_decay_on}),
      config_(config) {
  verify_betas(config.betas);
  exp_avg_ = add_like("exp_avg");
  exp_avg_sq_ = add_like("exp_avg_sq");
  step_ = add_scalar("step", 0);
}

void AdamVariant::begin_step(const Lists& lists, double /*lr*/) {
  at::_foreach_add_(lists.states[step_], 1);
}

std::vector<at::Tensor> AdamVariant::update_averages(const Lists& lists, double lr,
                                                     double weight_decay) const {
  auto gradients = lists.gradients;
  if (weight_decay != 0 && config_.decoupled)
    at::_foreach_mul_(lists.parameters, 1 - lr * weight_decay);
  else if (weight_decay != 0)
    gradients = at::_foreach_add(gradients, lists.parameters, weight_decay);
  at::_foreach_lerp_(lists.states[exp_avg_], gradients, 1 - beta1());
  const auto& squares = lists.states[exp_avg_sq_];
  at::_foreach_mul_(squares, beta2());
  at::_foreach_addcmul_(squares, gradients, gradients, 1 - beta2());
  return gradients;
}

}  // namespace lockstep::trainer
