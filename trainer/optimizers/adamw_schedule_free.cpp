// Schedule-free AdamW (Defazio et al., 2024): gradients are taken at y, between the iterate z and
// its average x, which is what is evaluated and saved. The operations of the package schedulefree
// (AdamWScheduleFree, foreach=True), in its order.
//
// While training, the parameters hold y, and x is a function of y and z. Evaluations and checkpoints
// replace y by x; the exact y is kept meanwhile, and in checkpoints, so that they change no bit.
#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "trainer/optimizers/foreach_optimizer.h"

namespace lockstep::trainer {
namespace {

struct ScheduleFreeConfig {
  double lr = 0.0025;
  std::vector<double> betas = {0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 0;
  WeightDecay weight_decay_on = WeightDecay::All;
  int64_t warmup_steps = 0;
  double r = 0;
  double weight_lr_power = 2;
};

template <class V>
void fields(V& v, ScheduleFreeConfig& c) {
  v("lr", c.lr, "learning rate", above(0));
  v("betas", c.betas, "where gradients are taken between z and x; decay rate of squared gradients",
    at_least(0), below(1));
  v("eps", c.eps, "added to the denominator", above(0));
  v("weight_decay", c.weight_decay, "decoupled weight decay, at y", at_least(0));
  v("weight_decay_on", c.weight_decay_on, kDecayHelp, needs("weight_decay"));
  v("warmup_steps", c.warmup_steps, "steps over which the learning rate rises linearly from 0",
    at_least(0));
  v("r", c.r, "step n has the weight n ^ r in the average", at_least(0));
  v("weight_lr_power", c.weight_lr_power,
    "steps are also weighted by this power of the largest learning rate so far", at_least(0));
}

class ScheduleFreeAdamW final : public ForeachOptimizer {
 public:
  using Config = ScheduleFreeConfig;

  ScheduleFreeAdamW(const Config& config, const NamedTensors& parameters)
      : ForeachOptimizer(parameters, config.lr, {config.weight_decay, config.weight_decay_on}),
        config_(config) {
    verify_betas(config.betas);
    if (config.betas[0] == 0)
      throw config_error("optimizer.betas: the first must be above 0: x cannot be found from y");
    z_ = add_late("z");
    exp_avg_sq_ = add_like("exp_avg_sq");
  }

  bool is_elementwise() const override { return false; }
  bool can_unfreeze() const override { return false; }  // one count of steps corrects all squares
  bool has_evaluation_weights() const override { return true; }

  void use_evaluation_weights() override {
    for (size_t i = 0; i < parameters().size(); ++i) {
      auto parameter = parameters()[i].second;
      kept_.push_back(parameter.detach().clone());
      const auto z = state_of(z_, i);
      if (z.defined()) parameter.lerp_(z, 1 - 1 / config_.betas[0]);
    }
  }

  void use_training_weights() override {
    for (size_t i = 0; i < kept_.size(); ++i) at::Tensor(parameters()[i].second).copy_(kept_[i]);
    kept_.clear();
  }

  NamedTensors state() const override {
    auto state = ForeachOptimizer::state();
    for (size_t i = 0; i < parameters().size(); ++i) {
      const auto& [name, parameter] = parameters()[i];
      state.emplace_back("y." + name, kept_.empty() ? parameter.detach() : kept_[i]);
      if (i == 0) state.emplace_back("average." + name, average_);
    }
    return state;
  }

  void load_state(const NamedTensors& state) override {
    ForeachOptimizer::load_state(state);
    for (size_t i = 0; i < parameters().size(); ++i) {
      auto [name, parameter] = parameters()[i];
      parameter.detach().copy_(find_state(state, "y", name, parameter.sizes()));
      if (i == 0) average_.copy_(find_state(state, "average", name, average_.sizes()));
    }
  }

 private:
  void begin_step(const Lists& lists, double lr) override {
    for (size_t i = 0; i < lists.parameters.size(); ++i)
      if (!lists.states[z_][i].defined())
        set_state(z_, lists.indices[i], lists.parameters[i].detach().clone());
    auto* const average = average_.mutable_data_ptr<double>();
    auto &count = average[0], &weight_sum = average[1], &largest_lr = average[2];
    count += 1;
    const auto warmup = static_cast<double>(config_.warmup_steps);
    step_lr_ = lr * (count <= warmup ? count / warmup : 1.0);
    largest_lr = std::max(step_lr_, largest_lr);
    const auto weight = std::pow(count, config_.r) * std::pow(largest_lr, config_.weight_lr_power);
    weight_sum += weight;
    share_ = weight_sum == 0 ? 0 : weight / weight_sum;
    bias_ = 1 - std::pow(config_.betas[1], count);
  }

  void update(const Lists& lists, double /*lr*/, double weight_decay) override {
    const auto &squares = lists.states[exp_avg_sq_], &z = lists.states[z_];
    at::_foreach_mul_(squares, config_.betas[1]);
    at::_foreach_addcmul_(squares, lists.gradients, lists.gradients, 1 - config_.betas[1]);
    auto roots = at::_foreach_div(squares, bias_);
    at::_foreach_sqrt_(roots);
    at::_foreach_add_(roots, config_.eps);
    auto directions = at::_foreach_div(lists.gradients, roots);
    if (weight_decay != 0) at::_foreach_add_(directions, lists.parameters, weight_decay);
    at::_foreach_lerp_(lists.parameters, z, share_);
    at::_foreach_add_(lists.parameters, directions,
                      step_lr_ * (config_.betas[0] * (1 - share_) - 1));
    at::_foreach_sub_(z, directions, step_lr_);
  }

  Config config_;
  size_t z_ = 0, exp_avg_sq_ = 0;
  // Steps, sum of the weights, and largest learning rate; in checkpoints with the first parameter.
  at::Tensor average_ = at::zeros({3}, at::kDouble);
  std::vector<at::Tensor> kept_;  // y while the parameters hold x
  double step_lr_ = 0, share_ = 0,
         bias_ = 1;  // of the step: share of z in x, correction of squares
};

REGISTER_OPTIMIZER("adamw_schedule_free", ScheduleFreeAdamW,
                   "AdamW with an average in place of a schedule (as schedulefree's)");

}  // namespace
}  // namespace lockstep::trainer
