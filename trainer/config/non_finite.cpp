#include "trainer/config/non_finite.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <tuple>
#include <utility>

#include "distributed/objects.h"
#include "lockstep/error.h"

namespace lockstep::trainer {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

}  // namespace

bool NonFiniteWatch::observe(const char* what, const at::Tensor& value, int64_t step,
                             const std::function<std::string()>& find_cause) {
  if (!value.defined() || !(skips() || (stops() && value.is_cpu()))) return true;
  const auto number = value.item<double>();
  const bool is_first = !seen_;
  note(what, number, step);
  if (is_first && seen_ && find_cause) seen_->cause = find_cause();
  return std::isfinite(number);
}

void NonFiniteWatch::note(const std::string& what, double value, int64_t step) {
  if (!seen_ && !std::isfinite(value)) seen_ = Seen{what, value, step, ""};
}

void NonFiniteWatch::observe_gradients(const std::vector<at::Tensor>& gradients, int64_t step) {
  if (gradients.empty()) return;
  // The infinity norm of each: unlike a sum of squares, it is finite if all elements are.
  const auto norms = at::_foreach_norm(gradients, kInfinity);
  observe("gradient", at::stack(norms).sum(), step);
}

void NonFiniteWatch::observe_weights(const NamedTensors& weights, int64_t step) {
  if (!stops() || seen_) return;
  std::vector<at::Tensor> norms;
  for (const auto& [name, weight] : weights)
    norms.push_back(weight.is_floating_point() && weight.numel() > 0
                        ? at::linalg_vector_norm(weight.detach(), kInfinity).to(at::kDouble)
                        : at::zeros({}, weight.options().dtype(at::kDouble)));
  if (norms.empty()) return;
  const auto all = at::stack(norms).cpu();
  for (size_t i = 0; i < norms.size(); ++i)
    note(fmt::format("weight '{}'", weights[i].first), all[static_cast<int64_t>(i)].item<double>(),
         step);
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
           {"step", seen_->step},
           {"cause", seen_->cause.empty() ? "" : ": " + seen_->cause}};
  const auto all = distributed::all_gather_object(world, own, "non-finite values");
  // A value that is not finite reaches the other ranks with the gradients: the first one is the
  // cause, and a loss comes before the gradients of its step.
  const auto order = [&](size_t rank) {
    const auto& seen = all[rank];
    return std::make_tuple(seen["step"].get<int64_t>(), seen["what"] != "loss", rank);
  };
  std::optional<size_t> first;
  for (size_t rank = 0; rank < all.size(); ++rank)
    if (!all[rank].is_null() && (!first || order(rank) < order(*first))) first = rank;
  check(first.has_value(), "a rank voted that a value is not finite, but no rank has recorded one");
  const auto& seen = all[*first];
  throw config_error(fmt::format(
      "step {}, rank {}: the {} is {}{} (train.non_finite: stop); check the data for such values, "
      "lower optimizer.lr or set train.clip_grad_norm; train.non_finite=skip skips such steps",
      seen["step"].get<int64_t>(), *first, seen["what"].get<std::string>(),
      seen["value"].get<std::string>(), seen["cause"].get<std::string>()));
}

std::string cause_of_loss(const Batch& batch, const NamedTensors& parameters) {
  for (const auto& [name, field] : batch.fields) {
    if (!field.is_floating_point() || field.dim() == 0 || field.size(0) != batch.size()) continue;
    const auto is_finite = at::isfinite(field).reshape({batch.size(), -1}).all(1).cpu();
    for (int64_t row = 0; row < batch.size(); ++row)
      if (!is_finite[row].item<bool>())
        return fmt::format("field '{}' of sample {} is not finite", name,
                           batch.indices[row].item<int64_t>());
  }
  for (const auto& [name, parameter] : parameters)
    if (!at::isfinite(parameter).all().item<bool>())
      return fmt::format("weight '{}' is not finite", name);
  return parameters.empty() ? "the samples are finite" : "the samples and the weights are finite";
}

}  // namespace lockstep::trainer
