// Adagrad, with the bits of torch.optim.Adagrad(fused=True).
#include <ATen/ATen.h>

#include "trainer/optimizers/foreach_optimizer.h"

namespace lockstep::trainer {
namespace {

struct AdagradConfig {
  double lr = 0.01;
  double lr_decay = 0;
  double initial_accumulator = 0;
  double eps = 1e-10;
  double weight_decay = 0;
  WeightDecay weight_decay_on = WeightDecay::All;
};

template <class V>
void fields(V& v, AdagradConfig& c) {
  v("lr", c.lr, "learning rate", above(0));
  v("lr_decay", c.lr_decay, "the learning rate is divided by 1 + steps * lr_decay", at_least(0));
  v("initial_accumulator", c.initial_accumulator, "first value of the sums of squared gradients",
    at_least(0));
  v("eps", c.eps, "added to the denominator", above(0));
  v("weight_decay", c.weight_decay, "L2 penalty", at_least(0));
  v("weight_decay_on", c.weight_decay_on, kDecayHelp, needs("weight_decay"));
}

class Adagrad final : public ForeachOptimizer {
 public:
  using Config = AdagradConfig;

  Adagrad(const Config& config, const NamedTensors& parameters)
      : ForeachOptimizer(parameters, config.lr, {config.weight_decay, config.weight_decay_on}),
        config_(config) {
    sum_ = add_like("sum", config.initial_accumulator);
    step_ = add_scalar("step", 0, /*on_device=*/true);
  }

 private:
  void begin_step(const Lists& lists, double /*lr*/) override {
    at::_foreach_add_(lists.states[step_], 1);
  }

  // One operation reads memory once.
  bool uses_blocks() const override { return false; }

  void update(const Lists& lists, double lr, double weight_decay) override {
    at::_fused_adagrad_(lists.parameters, lists.gradients, lists.states[sum_], lists.states[step_],
                        lr, config_.lr_decay, weight_decay, config_.eps, /*maximize=*/false);
  }

  Config config_;
  size_t sum_ = 0, step_ = 0;
};

REGISTER_OPTIMIZER("adagrad", Adagrad,
                   "divides by the root of the sum of squared gradients (as torch.optim.Adagrad)");

}  // namespace
}  // namespace lockstep::trainer
