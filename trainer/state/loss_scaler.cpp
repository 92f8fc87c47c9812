#include "trainer/state/loss_scaler.h"

#include <ATen/ATen.h>

#include <limits>
#include <utility>

namespace lockstep::trainer {
namespace {

constexpr double kGrowth = 2, kBackoff = 0.5;
constexpr int64_t kGrowthInterval = 2000;  // steps

// Limited to the range of float32, as in Python.
double grown(double scale) {
  const auto next = scale * kGrowth;
  return next <= std::numeric_limits<float>::max() ? next : scale;
}

}  // namespace

at::Tensor LossScaler::scaled(const at::Tensor& loss) const { return loss * state_.scale; }

bool LossScaler::unscale(const StepGradients& gradients) {
  if (gradients.empty()) return true;
  auto found_inf = at::zeros({1}, at::device(gradients.device()).dtype(at::kFloat));
  const auto inverse = at::full({1}, 1 / state_.scale, found_inf.options());
  if (!gradients.own().empty())
    at::_amp_foreach_non_finite_check_and_unscale_(gradients.own(), found_inf, inverse);
  found_inf = gradients.max_of_ranks(found_inf);
  if (found_inf.item<float>() != 0) {
    state_ = {state_.scale * kBackoff, 0};
    ++skipped_;
    return false;
  }
  if (++state_.good_steps == kGrowthInterval) state_ = {grown(state_.scale), 0};
  return true;
}

int64_t LossScaler::take_skipped() { return std::exchange(skipped_, 0); }

}  // namespace lockstep::trainer
