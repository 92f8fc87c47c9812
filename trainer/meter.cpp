#include "trainer/meter.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

namespace lockstep {

void Meter::add(const Outputs& outputs) {
  const at::NoGradGuard no_grad;
  add_to(sums_["loss"], outputs.loss, static_cast<double>(outputs.count));
  for (const auto& [name, value] : outputs.sums) add_to(sums_[name], value, 1);
  count_ += outputs.count;
}

void Meter::add_to(Sum& sum, const at::Tensor& value, double weight) {
  if (value.is_cpu()) {
    sum.here += value.item<double>() * weight;
    return;
  }
  if (!sum.on_device.defined()) sum.on_device = at::zeros({}, value.options().dtype(at::kDouble));
  sum.on_device.add_(value.detach().to(at::kDouble) * weight);
}

Counters Meter::take() {
  Counters counters;
  for (auto& [name, sum] : sums_) {
    if (sum.on_device.defined()) {
      sum.here += sum.on_device.item<double>();
      sum.on_device.zero_();
    }
    counters[name] = {sum.here, static_cast<double>(count_)};
    sum.here = 0;
  }
  count_ = 0;
  return counters;
}

}  // namespace lockstep
