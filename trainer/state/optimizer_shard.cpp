#include "trainer/state/optimizer_shard.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "distributed/collectives.h"
#include "distributed/objects.h"
#include "lockstep/error.h"

namespace lockstep::trainer {

using distributed::ParameterSlice;

// One tensor of the whole state: a slice on each owner, or the same scalar on all of them.
struct OptimizerShard::Entry {
  struct Owner {
    int rank = 0;
    int64_t begin = 0, numel = 0;
  };
  std::string name;
  size_t parameter = 0;
  at::ScalarType type = at::kFloat;
  bool is_sliced = false;
  std::vector<Owner> owners;
};

OptimizerShard::OptimizerShard(World& world, NamedTensors parameters,
                               distributed::FlatParameters* flat, const Build& build)
    : world_(world), parameters_(std::move(parameters)), flat_(flat) {
  if (!flat_) {
    optimizer_ = build(parameters_);
    return;
  }
  for (const auto& slice : flat_->slices()) {
    const auto& [name, parameter] = parameters_[slice.parameter];
    slices_.emplace_back(name, distributed::slice_of(parameter, slice));
  }
  optimizer_ = build(slices_);
}

void OptimizerShard::step(double lr) {
  if (!flat_) return optimizer_->step(lr);
  for (size_t i = 0; i < slices_.size(); ++i) {
    const auto& slice = flat_->slices()[i];
    const auto& parameter = parameters_[slice.parameter].second;
    auto gradient = parameter.grad();
    if (!gradient.defined()) continue;
    if (gradient.strides() != parameter.strides())
      gradient = at::empty_like(parameter).copy_(gradient);
    slices_[i].second.mutable_grad() = distributed::slice_of(gradient, slice);
  }
  optimizer_->step(lr);
  for (auto& [name, slice] : slices_) slice.mutable_grad().reset();
  flat_->publish("updated parameters");
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

// Collective. In the order of the parameters, and for each in the order of the optimizer.
std::vector<OptimizerShard::Entry> OptimizerShard::entries() {
  auto mine = nlohmann::json::array();
  for (const auto& [name, tensor] : optimizer_->state()) {
    const auto* slice = find_slice(name);
    check(slice != nullptr, "an optimizer's state is not called '<kind>.<parameter>'");
    mine.push_back({name, slice->parameter, static_cast<int>(tensor.scalar_type()),
                    tensor.numel() == slice->numel && tensor.dim() > 0, slice->begin,
                    slice->numel});
  }
  const auto all = distributed::all_gather_object(world_, mine, "optimizer state");
  std::map<size_t, std::vector<Entry>> by_parameter;
  for (size_t rank = 0; rank < all.size(); ++rank)
    for (const auto& item : all[rank]) {
      auto& list = by_parameter[item[1].get<size_t>()];
      const auto name = item[0].get<std::string>();
      auto found = std::ranges::find(list, name, &Entry::name);
      if (found == list.end()) {
        list.push_back({.name = name,
                        .parameter = item[1].get<size_t>(),
                        .type = static_cast<at::ScalarType>(item[2].get<int>()),
                        .is_sliced = item[3].get<bool>()});
        found = list.end() - 1;
      }
      found->owners.push_back(
          {static_cast<int>(rank), item[4].get<int64_t>(), item[5].get<int64_t>()});
    }
  std::vector<Entry> entries;
  for (auto& [parameter, list] : by_parameter)
    std::move(list.begin(), list.end(), std::back_inserter(entries));
  return entries;
}

NamedTensors OptimizerShard::state() {
  if (!flat_) return optimizer_->state();
  NamedTensors state;
  for (const auto& entry : entries()) {
    const auto& parameter = parameters_[entry.parameter].second;
    const auto options = at::device(at::kMeta).dtype(entry.type);
    state.emplace_back(entry.name, entry.is_sliced ? at::empty_strided(parameter.sizes(),
                                                                       parameter.strides(), options)
                                                   : at::empty({}, options));
  }
  return state;
}

NamedTensors OptimizerShard::collect(const NamedTensors& wanted) {
  if (!flat_) return wanted;
  const at::NoGradGuard no_grad;
  const auto own = optimizer_->state();
  NamedTensors collected;
  for (const auto& entry : entries()) {
    const auto& parameter = parameters_[entry.parameter].second;
    const auto options = parameter.options().dtype(entry.type);
    at::Tensor whole;
    if (find_tensor(wanted, entry.name))
      whole = entry.is_sliced ? at::empty_strided(parameter.sizes(), parameter.strides(), options)
                              : at::empty({}, options);
    for (const auto& owner : entry.owners) {
      const bool is_own = owner.rank == world_.rank();
      auto part = is_own ? distributed::flat_view(*find_tensor(own, entry.name))
                         : at::empty({entry.is_sliced ? owner.numel : 1}, options);
      distributed::broadcast(world_, part, owner.rank, "optimizer state");
      if (whole.defined())
        distributed::flat_view(whole)
            .narrow(0, entry.is_sliced ? owner.begin : 0, part.numel())
            .copy_(part);
      if (!entry.is_sliced) break;  // the others have the same
    }
    if (whole.defined()) collected.emplace_back(entry.name, whole);
  }
  return collected;
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
