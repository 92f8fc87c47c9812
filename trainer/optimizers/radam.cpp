// RAdam (Liu et al., 2020), with the bits of torch.optim.RAdam(foreach=True).
#include <ATen/ATen.h>

#include <cmath>

#include "trainer/optimizers/adam_variants.h"

namespace lockstep::trainer {
namespace {

struct RAdamConfig : AdamVariantConfig {};

template <class V>
void fields(V& v, RAdamConfig& c) {
  add_variant_fields(v, c);
}

class RAdam final : public AdamVariant {
 public:
  using Config = RAdamConfig;
  RAdam(const Config& config, const NamedTensors& parameters) : AdamVariant(config, parameters) {}

 private:
  void update(const Lists& lists, double lr, double weight_decay) override {
    update_averages(lists, lr, weight_decay);
    std::vector<at::Scalar> rectified, plain;  // negative factors of the update
    for (const auto step : doubles_of(lists.states[step_])) {
      const auto rect = rectification(step);
      const auto bias = 1 - std::pow(beta1(), step);
      plain.emplace_back((lr * (rect > 0 ? 0.0 : 1.0) / bias) * -1);
      rectified.emplace_back(std::pow(1 - std::pow(beta2(), step), 0.5) * (lr * rect / bias) * -1);
    }
    auto factors = at::_foreach_sqrt(lists.states[exp_avg_sq_]);
    at::_foreach_add_(factors, eps());
    at::_foreach_div_(factors, rectified);
    at::_foreach_reciprocal_(factors);
    at::_foreach_add_(factors, plain);
    at::_foreach_addcmul_(lists.parameters, lists.states[exp_avg_], factors);
  }

  // 0 while the variance of the denominator is too large.
  double rectification(double step) const {
    const auto limit = 2 / (1 - beta2()) - 1;
    const auto decay = std::pow(beta2(), step);
    const auto length = limit - 2 * step * decay / (1 - decay);
    if (length <= 5) return 0;
    return std::pow((length - 4) * (length - 2) * limit / ((limit - 4) * (limit - 2) * length),
                    0.5);
  }
};

REGISTER_OPTIMIZER("radam", RAdam,
                   "Adam whose first steps have no denominator (as torch.optim.RAdam)");

}  // namespace
}  // namespace lockstep::trainer
