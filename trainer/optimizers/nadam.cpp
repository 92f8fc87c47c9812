// NAdam (Dozat, 2016): Adam with Nesterov momentum, with the bits of torch.optim.NAdam(foreach=True).
#include <ATen/ATen.h>

#include <cmath>

#include "trainer/optimizers/adam_variants.h"

namespace lockstep::trainer {
namespace {

struct NAdamConfig : AdamVariantConfig {
  NAdamConfig() { lr = 2e-3; }
  double momentum_decay = 4e-3;
};

template <class V>
void fields(V& v, NAdamConfig& c) {
  add_variant_fields(v, c);
  v("momentum_decay", c.momentum_decay, "how fast the momentum reaches the first beta",
    at_least(0));
}

class NAdam final : public AdamVariant {
 public:
  using Config = NAdamConfig;

  NAdam(const Config& config, const NamedTensors& parameters)
      : AdamVariant(config, parameters), momentum_decay_(config.momentum_decay) {
    mu_product_ = add_scalar("mu_product", 1);
  }

 private:
  double momentum(double step) const {
    return beta1() * (1.0 - 0.5 * std::pow(0.96, step * momentum_decay_));
  }

  void begin_step(const Lists& lists, double lr) override {
    AdamVariant::begin_step(lists, lr);
    std::vector<at::Scalar> momenta;
    for (const auto step : doubles_of(lists.states[step_])) momenta.emplace_back(momentum(step));
    at::_foreach_mul_(lists.states[mu_product_], momenta);
  }

  void update(const Lists& lists, double lr, double weight_decay) override {
    const auto gradients = update_averages(lists, lr, weight_decay);
    const auto steps = doubles_of(lists.states[step_]);
    const auto products = doubles_of(lists.states[mu_product_]);
    std::vector<at::Scalar> biases, of_gradient, of_average;
    for (size_t i = 0; i < steps.size(); ++i) {
      const auto next = momentum(steps[i] + 1);
      biases.emplace_back(std::pow(1 - std::pow(beta2(), steps[i]), 0.5));
      of_gradient.emplace_back((lr * (1.0 - momentum(steps[i])) / (1.0 - products[i])) * -1);
      of_average.emplace_back((lr * next / (1.0 - products[i] * next)) * -1);
    }
    auto roots = at::_foreach_sqrt(lists.states[exp_avg_sq_]);
    at::_foreach_div_(roots, biases);
    at::_foreach_add_(roots, eps());
    at::_foreach_addcdiv_(lists.parameters, gradients, roots, of_gradient);
    at::_foreach_addcdiv_(lists.parameters, lists.states[exp_avg_], roots, of_average);
  }

  double momentum_decay_;
  size_t mu_product_ = 0;
};

REGISTER_OPTIMIZER("nadam", NAdam, "Adam with Nesterov momentum (as torch.optim.NAdam)");

}  // namespace
}  // namespace lockstep::trainer
