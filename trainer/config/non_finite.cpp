#include "trainer/config/non_finite.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <utility>

#include "distributed/objects.h"
#include "lockstep/error.h"

namespace lockstep::trainer {

bool NonFiniteWatch::observe(const char* what, const at::Tensor& value, int64_t step) {
  if (!value.defined() || !(skips() || (stops() && value.is_cpu()))) return true;
  const auto number = value.item<double>();
  note(what, number, step);
  return std::isfinite(number);
}

void NonFiniteWatch::note(const char* what, double value, int64_t step) {
  if (!seen_ && !std::isfinite(value)) seen_ = Seen{what, value, step};
}

void NonFiniteWatch::observe_gradients(const NamedTensors& parameters, int64_t step) {
  std::vector<at::Tensor> gradients;
  for (const auto& [name, parameter] : parameters)
    if (parameter.grad().defined()) gradients.push_back(parameter.grad());
  if (gradients.empty()) return;
  // The infinity norm of each: unlike a sum of squares, it is finite if all elements are.
  const auto norms = at::_foreach_norm(gradients, std::numeric_limits<double>::infinity());
  observe("gradient", at::stack(norms).sum(), step);
}

void NonFiniteWatch::count_skipped(int64_t step) {
  clear();
  ++skipped_;
  if (++skipped_in_a_row_ >= kMaxSkippedInARow)
    throw config_error(fmt::format(
        "step {}: {} steps in a row were skipped because a loss or a gradient was not finite "
        "(train.non_finite: skip); check the data for such values, or lower optimizer.lr",
        step, skipped_in_a_row_));
}

int64_t NonFiniteWatch::take_skipped() { return std::exchange(skipped_, 0); }

void NonFiniteWatch::stop(World& world) const {
  nlohmann::json own = nullptr;
  if (seen_)
    own = {{"what", seen_->what},
           {"value", std::isnan(seen_->value) ? "nan" : fmt::format("{}", seen_->value)},
           {"step", seen_->step}};
  const auto all = distributed::all_gather_object(world, own, "non-finite values");
  for (size_t rank = 0; rank < all.size(); ++rank)
    if (const auto& seen = all[rank]; !seen.is_null())
      throw config_error(fmt::format(
          "step {}, rank {}: the {} is {} (train.non_finite: stop); check the data for such "
          "values, lower optimizer.lr or set train.clip_grad_norm; train.non_finite=skip skips "
          "such steps",
          seen["step"].get<int64_t>(), rank, seen["what"].get<std::string>(),
          seen["value"].get<std::string>()));
  check(false, "a rank voted that a value is not finite, but no rank has recorded one");
  std::abort();
}

}  // namespace lockstep::trainer
