#include "trainer/meter.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

namespace lockstep {

void Meter::add(const Outputs& outputs) {
  const at::NoGradGuard no_grad;
  const auto add_to = [&](const std::string& name, const at::Tensor& value) {
    auto& sum = sums_[name];
    if (!sum.defined()) sum = at::zeros({}, value.options().dtype(at::kDouble));
    sum.add_(value);
  };
  add_to("loss", outputs.loss.detach().to(at::kDouble) * static_cast<double>(outputs.count));
  for (const auto& [name, value] : outputs.sums) add_to(name, value.detach().to(at::kDouble));
  count_ += outputs.count;
}

Counters Meter::take() {
  Counters counters;
  for (auto& [name, sum] : sums_) {
    counters[name] = {sum.item<double>(), static_cast<double>(count_)};
    sum.zero_();
  }
  count_ = 0;
  return counters;
}

}  // namespace lockstep
