// What NAdam and RAdam share: settings, weight decay, and the two averages.
#pragma once

#include <vector>

#include "trainer/optimizers/foreach_optimizer.h"

namespace lockstep::trainer {

struct AdamVariantConfig {
  double lr = 1e-3;
  std::vector<double> betas = {0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 0;
  WeightDecay weight_decay_on = WeightDecay::All;
  bool decoupled = false;
};

template <class V>
void add_variant_fields(V& v, AdamVariantConfig& c) {
  v("lr", c.lr, "learning rate", above(0));
  v("betas", c.betas, "decay rates of the averages of gradient and squared gradient", at_least(0),
    below(1));
  v("eps", c.eps, "added to the denominator", above(0));
  v("weight_decay", c.weight_decay, "L2 penalty, or decoupled weight decay", at_least(0));
  v("weight_decay_on", c.weight_decay_on, kDecayHelp, needs("weight_decay"));
  v("decoupled", c.decoupled, "weight decay as in adamw", needs("weight_decay"));
}

class AdamVariant : public ForeachOptimizer {
 protected:
  AdamVariant(const AdamVariantConfig& config, const NamedTensors& parameters);

  void begin_step(const Lists& lists, double lr) override;

  // Applies weight decay and updates the averages. Returns the gradients, with the L2 penalty.
  std::vector<at::Tensor> update_averages(const Lists& lists, double lr, double weight_decay) const;

  double beta1() const { return config_.betas[0]; }
  double beta2() const { return config_.betas[1]; }
  double eps() const { return config_.eps; }

  size_t exp_avg_ = 0, exp_avg_sq_ = 0, step_ = 0;

 private:
  AdamVariantConfig config_;
};

}  // namespace lockstep::trainer
