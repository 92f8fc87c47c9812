#include "trainer/state/optimizer_shard.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "distributed/objects.h"
#include "lockstep/error.h"

namespace lockstep::trainer {

using distributed::ParameterSlice;

OptimizerShard::OptimizerShard(NamedTensors parameters, distributed::FlatParameters* flat,
                               const Build& build)
    : parameters_(std::move(parameters)), flat_(flat) {
  if (!flat_) {
    optimizer_ = build(parameters_);
    return;
  }
  for (size_t i = 0; i < flat_->slices().size(); ++i)
    slices_.emplace_back(parameters_[flat_->slices()[i].parameter].first, flat_->slice(i));
  optimizer_ = build(slices_);
}

void OptimizerShard::step(double lr) {
  if (!flat_) return optimizer_->step(lr);
  for (size_t i = 0; i < slices_.size(); ++i)
    slices_[i].second.mutable_grad() = flat_->slice_gradient(i);
  optimizer_->step(lr);
  for (auto& [name, slice] : slices_) slice.mutable_grad().reset();
  flat_->publish("updated parameters");
}

void OptimizerShard::use_evaluation_weights() {
  const at::NoGradGuard no_grad;
  optimizer_->use_evaluation_weights();
}

void OptimizerShard::use_training_weights() {
  const at::NoGradGuard no_grad;
  optimizer_->use_training_weights();
}

const ParameterSlice* OptimizerShard::find_slice(const std::string& state_name) const {
  for (size_t i = 0; i < slices_.size(); ++i) {
    const auto& name = slices_[i].first;
    if (state_name.size() > name.size() && state_name.ends_with(name) &&
        state_name[state_name.size() - name.size() - 1] == '.' &&
        state_name.find('.') == state_name.size() - name.size() - 1)
      return &flat_->slices()[i];
  }
  return nullptr;
}

// In the order of the parameters, and for each in the order of the optimizer.
std::vector<DividedState> OptimizerShard::divided_state() {
  if (!flat_) return {};
  const auto own = optimizer_->state();
  auto mine = nlohmann::json::array();
  for (const auto& [name, tensor] : own) {
    const auto* slice = find_slice(name);
    check(slice != nullptr, "an optimizer's state is not called '<kind>.<parameter>'");
    const bool is_sliced = tensor.numel() == slice->numel && tensor.dim() > 0;
    mine.push_back({name, slice->parameter, static_cast<int>(tensor.scalar_type()), is_sliced,
                    is_sliced ? slice->begin : 0, tensor.numel()});
  }
  const auto all = distributed::all_gather_object(flat_->ranks(), mine, "optimizer state");
  std::map<size_t, std::vector<DividedState>> by_parameter;
  for (size_t rank = 0; rank < all.size(); ++rank)
    for (const auto& item : all[rank]) {
      const auto index = item[1].get<size_t>();
      auto& list = by_parameter[index];
      const auto name = item[0].get<std::string>();
      const bool is_sliced = item[3];
      auto found = std::ranges::find(list, name, &DividedState::name);
      if (found == list.end()) {
        const auto& parameter = parameters_[index].second;
        const auto options =
            at::device(at::kMeta).dtype(static_cast<at::ScalarType>(item[2].get<int>()));
        const auto* const tensor = find_tensor(own, name);
        list.push_back(
            {.list = "optimizer",
             .name = name,
             .tensor = {.whole = is_sliced ? at::empty_strided(parameter.sizes(),
                                                               parameter.strides(), options)
                                           : at::empty({}, options),
                        .parts = {},
                        .own = tensor ? *tensor : at::Tensor()}});
        found = list.end() - 1;
      }
      // A scalar is the same on all ranks that have it.
      if (is_sliced || found->tensor.parts.empty())
        found->tensor.parts.push_back(
            {static_cast<int>(rank), item[4].get<int64_t>(), item[5].get<int64_t>()});
    }
  std::vector<DividedState> state;
  for (auto& [parameter, list] : by_parameter)
    std::move(list.begin(), list.end(), std::back_inserter(state));
  return state;
}

at::Tensor OptimizerShard::keep(const std::string& name, const at::Tensor& whole) const {
  if (!flat_) return whole;
  const auto* slice = find_slice(name);
  if (!slice) return {};
  const auto& parameter = parameters_[slice->parameter].second;
  if (whole.sizes() != parameter.sizes()) return whole;  // a scalar, or refused by load_state()
  const auto laid_out =
      whole.strides() == parameter.strides()
          ? whole
          : at::empty_strided(parameter.sizes(), parameter.strides(), whole.options()).copy_(whole);
  return distributed::slice_of(laid_out, *slice).clone();
}

void OptimizerShard::load_state(const NamedTensors& kept) {
  if (flat_ && slices_.empty()) return;
  optimizer_->load_state(kept);
}

}  // namespace lockstep::trainer
