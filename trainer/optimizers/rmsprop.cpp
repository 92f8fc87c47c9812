// RMSprop, with the bits of torch.optim.RMSprop(foreach=True).
#include <ATen/ATen.h>

#include "trainer/optimizers/foreach_optimizer.h"

namespace lockstep::trainer {
namespace {

struct RmsPropConfig {
  double lr = 0.01;
  double alpha = 0.99;
  double eps = 1e-8;
  double momentum = 0;
  bool centered = false;
  double weight_decay = 0;
  WeightDecay weight_decay_on = WeightDecay::All;
};

template <class V>
void fields(V& v, RmsPropConfig& c) {
  v("lr", c.lr, "learning rate", above(0));
  v("alpha", c.alpha, "decay rate of the average of squared gradients", at_least(0), below(1));
  v("eps", c.eps, "added to the denominator", above(0));
  v("momentum", c.momentum, "momentum factor", at_least(0), below(1));
  v("centered", c.centered, "divide by the standard deviation of the gradient instead");
  v("weight_decay", c.weight_decay, "L2 penalty", at_least(0));
  v("weight_decay_on", c.weight_decay_on, kDecayHelp, needs("weight_decay"));
}

class RmsProp final : public ForeachOptimizer {
 public:
  using Config = RmsPropConfig;

  RmsProp(const Config& config, const NamedTensors& parameters)
      : ForeachOptimizer(parameters, config.lr, {config.weight_decay, config.weight_decay_on}),
        config_(config) {
    square_avg_ = add_like("square_avg");
    if (config.momentum > 0) momentum_ = add_like("momentum_buffer");
    if (config.centered) grad_avg_ = add_like("grad_avg");
  }

 private:
  void update(const Lists& lists, double lr, double weight_decay) override {
    auto gradients = lists.gradients;
    if (weight_decay != 0) gradients = at::_foreach_add(gradients, lists.parameters, weight_decay);
    const auto& squares = lists.states[square_avg_];
    at::_foreach_mul_(squares, config_.alpha);
    at::_foreach_addcmul_(squares, gradients, gradients, 1 - config_.alpha);
    const auto roots = roots_of(lists, squares, gradients);
    if (config_.momentum > 0) {
      const auto& momentum = lists.states[momentum_];
      at::_foreach_mul_(momentum, config_.momentum);
      at::_foreach_addcdiv_(momentum, gradients, roots);
      at::_foreach_add_(lists.parameters, momentum, -lr);
    } else {
      at::_foreach_addcdiv_(lists.parameters, gradients, roots, -lr);
    }
  }

  // The denominators.
  std::vector<at::Tensor> roots_of(const Lists& lists, const std::vector<at::Tensor>& squares,
                                   const std::vector<at::Tensor>& gradients) const {
    std::vector<at::Tensor> roots;
    if (config_.centered) {
      const auto& averages = lists.states[grad_avg_];
      at::_foreach_lerp_(averages, gradients, 1 - config_.alpha);
      roots = at::_foreach_addcmul(squares, averages, averages, -1);
      at::_foreach_sqrt_(roots);
    } else {
      roots = at::_foreach_sqrt(squares);
    }
    at::_foreach_add_(roots, config_.eps);
    return roots;
  }

  Config config_;
  size_t square_avg_ = 0, momentum_ = 0, grad_avg_ = 0;
};

REGISTER_OPTIMIZER("rmsprop", RmsProp,
                   "divides by an average of squared gradients (as torch.optim.RMSprop)");

}  // namespace
}  // namespace lockstep::trainer
