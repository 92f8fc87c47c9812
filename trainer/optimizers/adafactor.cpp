// Adafactor (Shazeer and Stern, 2018): the average of squared gradients of a matrix as one row and
// one column. The operations of torch.optim.Adafactor (_single_tensor_adafactor), in its order.
#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "trainer/optimizers/foreach_optimizer.h"

namespace lockstep::trainer {
namespace {

struct AdafactorConfig {
  double lr = 0.01;
  double beta2_decay = -0.8;
  std::optional<double> eps1;
  double eps2 = 1e-3;
  double clip = 1;
  double weight_decay = 0;
  WeightDecay weight_decay_on = WeightDecay::All;
};

template <class V>
void fields(V& v, AdafactorConfig& c) {
  v("lr", c.lr, "largest relative learning rate; step n uses at most 1 / sqrt(n)", above(0));
  v("beta2_decay", c.beta2_decay,
    "the averages of squared gradients take step n with n ^ beta2_decay", at_most(0));
  v("eps1", c.eps1, "least root of the average of squared gradients (empty: 1.2e-7)", above(0));
  v("eps2", c.eps2, "least root mean square of a parameter, which scales its update", at_least(0));
  v("clip", c.clip, "largest root mean square of an update, before the learning rate", at_least(1));
  v("weight_decay", c.weight_decay, "decoupled weight decay", at_least(0));
  v("weight_decay_on", c.weight_decay_on, kDecayHelp, needs("weight_decay"));
}

// The sizes of a parameter whose dimension `dim` (negative: from the end) is 1.
std::vector<int64_t> reduced(const at::Tensor& parameter, int64_t dim) {
  auto sizes = parameter.sizes().vec();
  sizes[static_cast<size_t>(parameter.dim() + dim)] = 1;
  return sizes;
}

double root_mean_square(const at::Tensor& tensor) {
  return tensor.norm(2).item<double>() / std::pow(static_cast<double>(tensor.numel()), 0.5);
}

class Adafactor final : public ForeachOptimizer {
 public:
  using Config = AdafactorConfig;

  Adafactor(const Config& config, const NamedTensors& parameters)
      : ForeachOptimizer(parameters, config.lr, {config.weight_decay, config.weight_decay_on}),
        config_(config) {
    row_var_ = add_factor("row_var", -1);
    col_var_ = add_factor("col_var", -2);
    variance_ = add_state("variance", [](const auto&, const auto& parameter) {
      if (parameter.dim() > 1) return at::Tensor();
      return at::zeros_like(parameter, at::MemoryFormat::Preserve).detach();
    });
    step_ = add_scalar("step", 0);
  }

  bool is_elementwise() const override { return false; }

 private:
  size_t add_factor(const char* kind, int64_t dim) {
    return add_state(kind, [dim](const auto&, const auto& parameter) {
      if (parameter.dim() < 2) return at::Tensor();
      return at::zeros(reduced(parameter, dim), parameter.options()).detach();
    });
  }

  bool uses_blocks() const override { return false; }

  void begin_step(const Lists& lists, double /*lr*/) override {
    at::_foreach_add_(lists.states[step_], 1);
  }

  void update(const Lists& lists, double lr, double weight_decay) override {
    const auto steps = doubles_of(lists.states[step_]);
    for (size_t i = 0; i < lists.parameters.size(); ++i) {
      auto parameter = lists.parameters[i];
      const auto& gradient = lists.gradients[i];
      const auto rate = std::min(lr, 1 / std::pow(steps[i], 0.5));
      const auto alpha = std::max(config_.eps2, root_mean_square(parameter)) * rate;
      if (weight_decay != 0) parameter.mul_(1 - lr * weight_decay);
      const auto variance = variance_of(lists, i, std::pow(steps[i], config_.beta2_decay));
      const auto update = variance.clamp_min_(eps1() * eps1()).rsqrt_().mul_(gradient);
      const auto size = update.norm(2).item<double>();
      const auto count = std::pow(static_cast<double>(update.numel()), 0.5);
      parameter.add_(update, -alpha / std::max(1.0, size / (count * config_.clip)));
    }
  }

  // Updates the averages of squared gradients, and returns the estimate that they give.
  at::Tensor variance_of(const Lists& lists, size_t i, double weight) const {
    const auto& gradient = lists.gradients[i];
    if (gradient.dim() < 2) {
      lists.states[variance_][i].lerp_(gradient.mul(gradient), weight);
      return lists.states[variance_][i].clone();
    }
    const auto &rows = lists.states[row_var_][i], &columns = lists.states[col_var_][i];
    rows.lerp_(gradient.norm(2, {-1}, true).square_().div_(gradient.size(-1)), weight);
    columns.lerp_(gradient.norm(2, {-2}, true).square_().div_(gradient.size(-2)), weight);
    return at::matmul(rows, columns).div_(rows.mean({-2}, /*keepdim=*/true).clamp_min_(eps1()));
  }

  double eps1() const {
    return config_.eps1.value_or(static_cast<double>(std::numeric_limits<float>::epsilon()));
  }

  Config config_;
  size_t row_var_ = 0, col_var_ = 0, variance_ = 0, step_ = 0;
};

REGISTER_OPTIMIZER("adafactor", Adafactor,
                   "a row and a column of state per matrix (as torch.optim.Adafactor)");

}  // namespace
}  // namespace lockstep::trainer
