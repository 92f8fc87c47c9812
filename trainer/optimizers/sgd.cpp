// Stochastic gradient descent with momentum. Same order of operations, and thus the same bits, as
// Python's default torch.optim.SGD (torch/optim/sgd.py, _single_tensor_sgd), with one foreach call
// per operation over all parameters.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>

#include "lockstep/error.h"
#include "lockstep/optimizer.h"
#include "trainer/optimizers/weight_decay.h"

namespace lockstep::trainer {
namespace {

struct SgdConfig {
  double lr = 0.01;
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;
  WeightDecay weight_decay_on = WeightDecay::All;
  bool nesterov = false;
};

template <class V>
void fields(V& v, SgdConfig& c) {
  v("lr", c.lr, "learning rate", above(0));
  v("momentum", c.momentum, "momentum factor", at_least(0), below(1));
  v("dampening", c.dampening, "dampening of the momentum", at_least(0), at_most(1),
    needs("momentum"));
  v("weight_decay", c.weight_decay, "L2 penalty", at_least(0));
  v("weight_decay_on", c.weight_decay_on, kDecayHelp, needs("weight_decay"));
  v("nesterov", c.nesterov, "use Nesterov momentum");
}

class Sgd final : public Optimizer {
 public:
  using Config = SgdConfig;

  Sgd(const Config& config, const NamedTensors& parameters)
      : config_(config), parameters_(parameters), momentum_(parameters.size()) {
    if (config.nesterov && (config.momentum <= 0 || config.dampening != 0))
      throw config_error("optimizer.nesterov needs momentum above 0 and dampening 0");
  }

  double base_lr() const override { return config_.lr; }

  void step(double lr) override {
    update(lr, config_.weight_decay, true);
    if (config_.weight_decay_on != WeightDecay::All) update(lr, 0, false);
  }

  bool is_elementwise() const override { return true; }

  NamedTensors state() const override {
    NamedTensors state;
    for (size_t i = 0; i < parameters_.size(); ++i)
      if (momentum_[i].defined())
        state.emplace_back("momentum_buffer." + parameters_[i].first, momentum_[i]);
    return state;
  }

  void load_state(const NamedTensors& state) override {
    if (config_.momentum == 0) return verify_unused(state);
    if (state.empty()) return;  // saved before the first gradient
    const auto is_momentum = [](const auto& item) {
      return item.first.starts_with("momentum_buffer.");
    };
    if (std::ranges::none_of(state, is_momentum))
      find_state(state, "momentum_buffer", parameters_.at(0).first, {});  // throws
    for (size_t i = 0; i < parameters_.size(); ++i) {
      const auto& [name, parameter] = parameters_[i];
      momentum_[i].reset();
      if (!has_state(state, "momentum_buffer", name)) continue;
      momentum_[i] =
          find_state(state, "momentum_buffer", name, parameter.sizes()).to(parameter.device());
    }
  }

 private:
  // Momentum may be turned off; state of another optimizer would be lost.
  static void verify_unused(const NamedTensors& state) {
    for (const auto& [name, tensor] : state)
      if (!name.starts_with("momentum_buffer."))
        throw config_error(
            fmt::format("the checkpoint has the optimizer state '{}', which sgd does not use: was "
                        "it saved with another optimizer?",
                        name));
  }

  // Updates the parameters that weight decay applies to, or the others.
  void update(double lr, double weight_decay, bool decayed) {
    clear();
    for (size_t i = 0; i < parameters_.size(); ++i) {
      const auto& parameter = parameters_[i].second;
      const auto& gradient = parameter.grad();
      if (!gradient.defined() || is_decayed(config_.weight_decay_on, parameter) != decayed)
        continue;
      changed_.push_back(parameter);
      gradients_.push_back(gradient);
      used_.push_back(i);
    }
    if (changed_.empty()) return;
    if (weight_decay != 0) gradients_ = at::_foreach_add(gradients_, changed_, weight_decay);
    if (config_.momentum != 0) gradients_ = apply_momentum(used_, gradients_);
    at::_foreach_add_(changed_, gradients_, -lr);
    clear();  // gradients must not outlive their step
  }

  std::vector<at::Tensor> apply_momentum(const std::vector<size_t>& used,
                                         const std::vector<at::Tensor>& gradients) {
    std::vector<at::Tensor> started, started_gradients;
    for (size_t i = 0; i < used.size(); ++i) {
      auto& buffer = momentum_[used[i]];
      if (buffer.defined()) {
        started.push_back(buffer);
        started_gradients.push_back(gradients[i]);
      } else {
        buffer = gradients[i].detach().clone();
      }
    }
    if (!started.empty()) {
      at::_foreach_mul_(started, config_.momentum);
      at::_foreach_add_(started, started_gradients, 1 - config_.dampening);
    }
    std::vector<at::Tensor> buffers;
    for (const auto i : used) buffers.push_back(momentum_[i]);
    return config_.nesterov ? at::_foreach_add(gradients, buffers, config_.momentum) : buffers;
  }

  void clear() {
    changed_.clear();
    gradients_.clear();
    used_.clear();
  }

  Config config_;
  NamedTensors parameters_;
  std::vector<at::Tensor> changed_, gradients_;  // of one step; members to reuse their memory
  std::vector<size_t> used_;
  std::vector<at::Tensor>
      momentum_;  // undefined until the parameter's first gradient, as in Python
};

REGISTER_OPTIMIZER("sgd", Sgd, "stochastic gradient descent with momentum (as torch.optim.SGD)");

}  // namespace
}  // namespace lockstep::trainer
