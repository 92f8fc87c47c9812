#include "trainer/state/optimizer_shard.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "distributed/collectives.h"
#include "distributed/objects.h"
#include "lockstep/error.h"

namespace lockstep::trainer {

using distributed::KeptShards;
using distributed::ParameterSlice;

namespace {

Error misnamed(const std::string& state) {
  return config_error(
      fmt::format("the optimizer's state '{}' is not called '<kind>.<parameter>'", state));
}

// `state`: "<kind>.<parameter>".
std::string parameter_of(const std::string& state) { return state.substr(state.find('.') + 1); }

// Scalars and what else is not of the slice are the same on all ranks that have them.
bool is_sliced(const at::Tensor& state, const ParameterSlice& slice) {
  return state.numel() == slice.numel && state.dim() > 0;
}

}  // namespace

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

void OptimizerShard::keep_shards() {
  if (!flat_) return;
  auto& ranks = flat_->ranks();
  if (!kept_) {
    int64_t numel = 0;
    for (const auto& flat : flat_->flats()) numel += flat.chunk;
    kept_ = KeptShards::create(ranks, numel);
    for (size_t i = 0; i < slices_.size(); ++i) {
      const auto& [name, slice] = slices_[i];
      kept_weights_.push_back({"model", name, name, flat_->slices()[i].begin, slice});
    }
  }
  hold_state();
  distributed::barrier(ranks, "state that outlives a rank");
}

void OptimizerShard::hold_state() {
  const auto state = optimizer_->state();
  if (kept_->holds(state)) return;
  std::vector<KeptShards::Item> items;
  for (const auto& [name, tensor] : state) {
    const auto* const slice = find_slice(name);
    if (!slice) throw misnamed(name);
    // Moved, it would no longer be the parameter's.
    if (tensor.is_alias_of(slices_[static_cast<size_t>(slice - flat_->slices().data())].second))
      throw config_error(fmt::format(
          "--on-rank-loss continue: the optimizer's state '{}' is in the memory of its parameter; "
          "return a copy from state(), or use distributed.shard: none",
          name));
    items.push_back({"optimizer", name, parameters_[slice->parameter].first,
                     is_sliced(tensor, *slice) ? slice->begin : KeptShards::kWhole, tensor});
  }
  kept_->hold(std::move(items));
}

void OptimizerShard::step(double lr) {
  if (!flat_) return optimizer_->step(lr);
  if (kept_) kept_->begin_update(kept_weights_);
  for (size_t i = 0; i < slices_.size(); ++i)
    slices_[i].second.mutable_grad() = flat_->slice_gradient(i);
  optimizer_->step(lr);
  for (auto& [name, slice] : slices_) slice.mutable_grad().reset();
  if (kept_) hold_state();
  flat_->publish("updated parameters");
  if (kept_) kept_->end_update();
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
    if (!slice) throw misnamed(name);
    const bool is_part = is_sliced(tensor, *slice);
    mine.push_back({name, slice->parameter, static_cast<int>(tensor.scalar_type()), is_part,
                    is_part ? slice->begin : 0, tensor.numel()});
  }
  const auto all = distributed::all_gather_object(flat_->ranks(), mine, "optimizer state");
  std::map<size_t, std::vector<DividedState>> by_parameter;
  for (size_t rank = 0; rank < all.size(); ++rank)
    for (const auto& item : all[rank]) {
      const auto index = item[1].get<size_t>();
      auto& list = by_parameter[index];
      const auto name = item[0].get<std::string>();
      const bool is_part = item[3];
      auto found = std::ranges::find(list, name, &DividedState::name);
      if (found == list.end()) {
        const auto& parameter = parameters_[index].second;
        const auto options =
            at::device(at::kMeta).dtype(static_cast<at::ScalarType>(item[2].get<int>()));
        const auto* const tensor = find_tensor(own, name);
        list.push_back(
            {.list = "optimizer",
             .name = name,
             .tensor = {.whole = is_part ? at::empty_strided(parameter.sizes(), parameter.strides(),
                                                             options)
                                         : at::empty({}, options),
                        .parts = {},
                        .own = tensor ? *tensor : at::Tensor()}});
        found = list.end() - 1;
      }
      // A scalar is the same on all ranks that have it.
      if (is_part || found->tensor.parts.empty())
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

// Parameters without any state in the checkpoint were frozen.
void OptimizerShard::load_state(NamedTensors kept, const std::vector<std::string>& saved) {
  if (flat_ && slices_.empty()) return;
  std::set<std::string> trained;
  for (const auto& name : saved) trained.insert(parameter_of(name));
  if (!trained.empty() && optimizer_->can_unfreeze())
    for (auto& item : optimizer_->state())
      if (!trained.contains(parameter_of(item.first))) kept.push_back(std::move(item));
  optimizer_->load_state(kept);
}

}  // namespace lockstep::trainer
