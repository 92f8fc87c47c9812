#include "trainer/state/meter.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <utility>
#include <vector>

#include "core/config/nearest_name.h"
#include "lockstep/error.h"

namespace lockstep::trainer {

MeasuredOfRanks merge_measured(World& world, const Measured& local, std::span<const double> row) {
  constexpr const char* kTotals = " totals";  // samples over targets; no metric has this name
  auto counters = local.counters;
  counters[kTotals] = {local.samples, local.targets};
  auto merged = merge_counters(world, counters, row);
  const auto totals = merged.counters.extract(kTotals).mapped();
  return {.total = {.counters = std::move(merged.counters),
                    .samples = totals.sum,
                    .targets = totals.count},
          .rows = std::move(merged.rows)};
}

void Meter::add(const Outputs& outputs, bool counts) {
  const at::NoGradGuard no_grad;
  if (!counts) {
    sums_["loss"];
    for (const auto& [name, value] : outputs.sums) sums_[name];
    return;
  }
  if (outputs.targets.defined()) {
    add_to(sums_["loss"], outputs.loss.to(at::kDouble) * outputs.targets, 1);
    add_to(targets_, outputs.targets, 1);
  } else {
    add_to(sums_["loss"], outputs.loss, static_cast<double>(outputs.count));
    targets_.here += static_cast<double>(outputs.count);
  }
  for (const auto& [name, value] : outputs.sums) add_to(sums_[name], value, 1);
  samples_ += outputs.count;
}

void Meter::add_to(Sum& sum, const at::Tensor& value, double weight) {
  if (value.is_cpu()) {
    sum.here += value.item<double>() * weight;
    return;
  }
  if (!sum.on_device.defined()) sum.on_device = at::zeros({}, value.options().dtype(at::kDouble));
  sum.on_device.add_(value.detach(), weight);  // in float64: one kernel
}

double Measured::sum(const std::string& name) const {
  const auto found = counters.find(name);
  return found == counters.end() ? 0 : found->second.sum;
}

std::vector<std::string> Meter::names() const {
  std::vector<std::string> names;
  for (const auto& [name, sum] : sums_) names.push_back(name);
  return names;
}

void Meter::add_names(const std::vector<std::string>& names) {
  for (const auto& name : names) sums_[name];
}

double Meter::loss() const {
  const auto found = sums_.find("loss");
  if (found == sums_.end()) return 0;
  const auto& [here, on_device] = found->second;
  return on_device.defined() ? here + on_device.item<double>() : here;
}

double Meter::take_from(Sum& sum) {
  if (sum.on_device.defined()) {
    sum.here += sum.on_device.item<double>();
    sum.on_device.zero_();
  }
  return std::exchange(sum.here, 0);
}

Measured Meter::take() {
  Measured measured;
  measured.targets = take_from(targets_);
  measured.samples = static_cast<double>(std::exchange(samples_, 0));
  for (auto& [name, sum] : sums_) measured.counters[name] = {take_from(sum), measured.targets};
  return measured;
}

double metric_of(const std::map<std::string, double>& evaluation, const std::string& metric,
                 const std::string& key) {
  if (const auto found = evaluation.find(metric); found != evaluation.end()) return found->second;
  std::vector<std::string> names;
  for (const auto& [name, value] : evaluation) names.push_back(name);
  throw config_error(
      fmt::format("{}: the evaluation has no '{}'{}", key, metric, suggest(metric, names)));
}

}  // namespace lockstep::trainer
