// Adam and AdamW as one fused kernel call over all parameters, with the bits of Python's
// torch.optim.Adam(fused=True) and torch.optim.AdamW(fused=True).
#include <ATen/ATen.h>

#include "lockstep/optimizer.h"
#include "trainer/optimizers/weight_decay.h"

namespace lockstep::trainer {
namespace {

struct AdamConfig {
  double lr = 1e-3;
  std::vector<double> betas = {0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 0;
  WeightDecay weight_decay_on = WeightDecay::All;
};

struct AdamWConfig : AdamConfig {
  AdamWConfig() { weight_decay = 1e-2; }
};

template <class V>
void add_fields(V& v, AdamConfig& c, const char* decay_help) {
  v("lr", c.lr, "learning rate", above(0));
  v("betas", c.betas, "decay rates of the averages of gradient and squared gradient", at_least(0),
    below(1));
  v("eps", c.eps, "added to the denominator", above(0));
  v("weight_decay", c.weight_decay, decay_help, at_least(0));
  v("weight_decay_on", c.weight_decay_on, kDecayHelp, needs("weight_decay"));
}

template <class V>
void fields(V& v, AdamConfig& c) {
  add_fields(v, c, "L2 penalty");
}

template <class V>
void fields(V& v, AdamWConfig& c) {
  add_fields(v, c, "decoupled weight decay");
}

class AdamOptimizer : public Optimizer {
 public:
  AdamOptimizer(const AdamConfig& config, const NamedTensors& parameters, bool decouples)
      : config_(config), decouples_(decouples), parameters_(parameters) {
    if (config.betas.size() != 2) throw config_error("optimizer.betas: expected two numbers");
    for (const auto& [name, parameter] : parameters) {
      exp_avg_.push_back(at::zeros_like(parameter, at::MemoryFormat::Preserve).detach());
      exp_avg_sq_.push_back(at::zeros_like(parameter, at::MemoryFormat::Preserve).detach());
      steps_.push_back(at::zeros({}, at::device(parameter.device()).dtype(at::kFloat)));
    }
  }

  double base_lr() const override { return config_.lr; }

  void step(double lr) override {
    update(lr, config_.weight_decay, true);
    if (config_.weight_decay_on != WeightDecay::All) update(lr, 0, false);
  }

  bool is_elementwise() const override { return true; }

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
  // Updates the parameters that weight decay applies to, or the others.
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
    const auto kernel = decouples_ ? kDecoupled : kPlain;
    kernel(used_.parameters, used_.gradients, used_.averages, used_.squares,
           /*max_exp_avg_sqs=*/{}, used_.steps, lr, config_.betas[0], config_.betas[1],
           weight_decay, config_.eps, /*amsgrad=*/false, /*maximize=*/false,
           /*grad_scale=*/{}, /*found_inf=*/{});
    used_.clear();  // gradients must not outlive their step
  }

  // Arguments of one update; a member to reuse the memory.
  struct Used {
    std::vector<at::Tensor> parameters, gradients, averages, squares, steps;

    void clear() {
      for (auto* list : {&parameters, &gradients, &averages, &squares, &steps}) list->clear();
    }
  };

  using Kernel = void (*)(at::TensorList, at::TensorList, at::TensorList, at::TensorList,
                          at::TensorList, at::TensorList, double, double, double, double, double,
                          bool, bool, const std::optional<at::Tensor>&,
                          const std::optional<at::Tensor>&);
  static constexpr Kernel kDecoupled = at::_fused_adamw_, kPlain = at::_fused_adam_;

  AdamConfig config_;
  bool decouples_;
  NamedTensors parameters_;
  std::vector<at::Tensor> exp_avg_, exp_avg_sq_, steps_;
  Used used_;
};

struct Adam final : AdamOptimizer {
  using Config = AdamConfig;
  Adam(const Config& config, const NamedTensors& parameters)
      : AdamOptimizer(config, parameters, /*decouples=*/false) {}
};

struct AdamW final : AdamOptimizer {
  using Config = AdamWConfig;
  AdamW(const Config& config, const NamedTensors& parameters)
      : AdamOptimizer(config, parameters, /*decouples=*/true) {}
};

REGISTER_OPTIMIZER("adam", Adam, "Adam (as torch.optim.Adam(fused=True))");
REGISTER_OPTIMIZER("adamw", AdamW,
                   "Adam with decoupled weight decay (as torch.optim.AdamW(fused=True))");

}  // namespace
}  // namespace lockstep::trainer
