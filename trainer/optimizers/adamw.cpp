// AdamW in one fused kernel call over all parameters: the bits of Python's
// torch.optim.AdamW(fused=True).
#include <ATen/ATen.h>

#include "trainer/optimizer.h"

namespace lockstep {
namespace {

struct AdamWConfig {
  double lr = 1e-3;
  std::vector<double> betas = {0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 1e-2;
  std::string weight_decay_on = kDecayAll;
};

template <class V>
void fields(V& v, AdamWConfig& c) {
  v("lr", c.lr, "learning rate", above(0));
  v("betas", c.betas, "decay of the averages of gradient and squared gradient", at_least(0),
    below(1));
  v("eps", c.eps, "added to the denominator", above(0));
  v("weight_decay", c.weight_decay, "decoupled weight decay", at_least(0));
  v("weight_decay_on", c.weight_decay_on, kDecayHelp, one_of({kDecayAll, kDecayMatrices}));
}

class AdamW final : public Optimizer {
 public:
  using Config = AdamWConfig;

  AdamW(const Config& config, const NamedTensors& parameters)
      : config_(config), parameters_(parameters) {
    if (config.betas.size() != 2) throw config_error("optimizer.betas: expected two numbers");
    verify_decay(config.weight_decay_on, config.weight_decay);
    for (const auto& [name, parameter] : parameters) {
      exp_avg_.push_back(at::zeros_like(parameter, at::MemoryFormat::Preserve).detach());
      exp_avg_sq_.push_back(at::zeros_like(parameter, at::MemoryFormat::Preserve).detach());
      steps_.push_back(at::zeros({}, at::device(parameter.device()).dtype(at::kFloat)));
    }
  }

  double base_lr() const override { return config_.lr; }

  void step(double lr) override {
    update(lr, config_.weight_decay, true);
    if (config_.weight_decay_on != kDecayAll) update(lr, 0, false);
  }

  NamedTensors state() const override {
    NamedTensors state;
    for (size_t i = 0; i < parameters_.size(); ++i) {
      state.emplace_back("exp_avg." + parameters_[i].first, exp_avg_[i]);
      state.emplace_back("exp_avg_sq." + parameters_[i].first, exp_avg_sq_[i]);
      state.emplace_back("step." + parameters_[i].first, steps_[i]);
    }
    return state;
  }

  void load_state(const NamedTensors& state) override {
    for (size_t i = 0; i < parameters_.size(); ++i) {
      const auto& [name, parameter] = parameters_[i];
      exp_avg_[i].copy_(find_state(state, "exp_avg", name, parameter.sizes()));
      exp_avg_sq_[i].copy_(find_state(state, "exp_avg_sq", name, parameter.sizes()));
      steps_[i].copy_(find_state(state, "step", name, {}));
    }
  }

 private:
  // Those that weight decay acts on, or the others.
  void update(double lr, double weight_decay, bool decayed) {
    used_.clear();
    for (size_t i = 0; i < parameters_.size(); ++i) {
      const auto& parameter = parameters_[i].second;
      const auto& gradient = parameter.grad();
      if (!gradient.defined() || is_decayed(config_.weight_decay_on, parameter) != decayed)
        continue;
      used_.parameters.push_back(parameter);
      used_.gradients.push_back(gradient);
      used_.averages.push_back(exp_avg_[i]);
      used_.squares.push_back(exp_avg_sq_[i]);
      used_.steps.push_back(steps_[i]);
    }
    if (used_.parameters.empty()) return;
    at::_foreach_add_(used_.steps, 1);
    at::_fused_adamw_(used_.parameters, used_.gradients, used_.averages, used_.squares,
                      /*max_exp_avg_sqs=*/{}, used_.steps, lr, config_.betas[0], config_.betas[1],
                      weight_decay, config_.eps, /*amsgrad=*/false, /*maximize=*/false);
    used_.clear();  // gradients must not outlive their step
  }

  // What one update works on; kept for its memory.
  struct Used {
    std::vector<at::Tensor> parameters, gradients, averages, squares, steps;

    void clear() {
      for (auto* list : {&parameters, &gradients, &averages, &squares, &steps}) list->clear();
    }
  };

  Config config_;
  NamedTensors parameters_;
  std::vector<at::Tensor> exp_avg_, exp_avg_sq_, steps_;
  Used used_;
};

REGISTER_OPTIMIZER("adamw", AdamW,
                   "Adam with decoupled weight decay (as torch.optim.AdamW(fused=True))");

}  // namespace
}  // namespace lockstep
