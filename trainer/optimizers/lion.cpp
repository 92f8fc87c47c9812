// Lion (Chen et al., 2023): moves by the sign of an average of gradients. The operations of the
// package lion-pytorch, in its order.
#include <ATen/ATen.h>

#include "trainer/optimizers/foreach_optimizer.h"

namespace lockstep::trainer {
namespace {

struct LionConfig {
  double lr = 1e-4;
  std::vector<double> betas = {0.9, 0.99};
  double weight_decay = 0;
  WeightDecay weight_decay_on = WeightDecay::All;
};

template <class V>
void fields(V& v, LionConfig& c) {
  v("lr", c.lr, "learning rate; 3 to 10 times less than with adamw", above(0));
  v("betas", c.betas, "decay rates of the average: in the update, and from step to step",
    at_least(0), below(1));
  v("weight_decay", c.weight_decay, "decoupled weight decay", at_least(0));
  v("weight_decay_on", c.weight_decay_on, kDecayHelp, needs("weight_decay"));
}

class Lion final : public ForeachOptimizer {
 public:
  using Config = LionConfig;

  Lion(const Config& config, const NamedTensors& parameters)
      : ForeachOptimizer(parameters, config.lr, {config.weight_decay, config.weight_decay_on}),
        betas_(config.betas) {
    verify_betas(betas_);
    exp_avg_ = add_like("exp_avg");
  }

 private:
  void update(const Lists& lists, double lr, double weight_decay) override {
    const auto& averages = lists.states[exp_avg_];
    if (weight_decay != 0) at::_foreach_mul_(lists.parameters, 1 - lr * weight_decay);
    auto updates = at::_foreach_mul(averages, betas_[0]);
    at::_foreach_add_(updates, lists.gradients, 1 - betas_[0]);
    at::_foreach_sign_(updates);
    at::_foreach_add_(lists.parameters, updates, -lr);
    at::_foreach_mul_(averages, betas_[1]);
    at::_foreach_add_(averages, lists.gradients, 1 - betas_[1]);
  }

  std::vector<double> betas_;
  size_t exp_avg_ = 0;
};

REGISTER_OPTIMIZER("lion", Lion,
                   "moves by the sign of an average of gradients; half of Adam's state");

}  // namespace
}  // namespace lockstep::trainer
