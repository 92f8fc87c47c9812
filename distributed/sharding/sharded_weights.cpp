#include "distributed/sharding/sharded_weights.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "distributed/backends/process_groups.h"
#include "distributed/fence.h"
#include "distributed/torch_versions.h"

namespace lockstep::distributed {
namespace {

c10::StorageImpl& storage_of(const FlatParameters::Flat& flat) {
  return *flat.memory.storage().unsafeGetStorageImpl();
}

size_t bytes_of(const FlatParameters::Flat& flat) {
  return static_cast<size_t>(flat.memory.numel()) * flat.memory.element_size();
}

}  // namespace

ShardedWeights::ShardedWeights(World& world, const std::vector<std::string>& names,
                               const std::vector<FlatParameters*>& flats)
    : world_(world) {
  for (const auto& name : names) units_.push_back({.name = name});
  for (auto* parameters : flats)
    for (auto& flat : parameters->flats()) {
      auto& unit = units_[flat.unit];
      unit.flats.push_back(&flat);
      unit.is_frozen |= !parameters->parameters()[flat.places.front().first].second.requires_grad();
    }
  for (size_t unit = 1; unit < units_.size(); ++unit) order_.push_back(unit);
}

// Collective, but does not wait.
void ShardedWeights::start(size_t index) {
  auto& unit = units_[index];
  if (unit.state != State::Released) return;
  const at::NoGradGuard no_grad;
  for (auto* flat : unit.flats) {
    const auto bytes = bytes_of(*flat);
    const auto free = free_memory_.lower_bound(bytes);
    auto& storage = storage_of(*flat);
    if (free == free_memory_.end()) {
      storage.set_data_ptr_noswap(storage.allocator()->allocate(bytes));
      storage.set_nbytes(bytes);
    } else {
      storage.set_nbytes(free->first);
      storage.set_data_ptr_noswap(std::move(free->second));
      free_memory_.erase(free);
    }
    auto& group = world_.groups().of(flat->own);
    unit.works.push_back(gather_into(group, flat->memory, flat->own));
  }
  unit.state = State::Gathering;
}

void ShardedWeights::gather(size_t index) {
  start(index);
  auto& unit = units_[index];
  if (unit.state == State::Gathered) return;
  fenced(world_, fmt::format("all_gather 'weights of {}'", unit.name), [&] {
    for (const auto& work : unit.works) work->wait();
  });
  unit.works.clear();
  unit.state = State::Gathered;
}

void ShardedWeights::release(size_t index) {
  if (units_[index].state == State::Released) return;
  gather(index);  // a prefetched unit that was not used
  for (auto* flat : units_[index].flats) {
    auto& storage = storage_of(*flat);
    const auto bytes = storage.nbytes();
    free_memory_.emplace(bytes, storage.set_data_ptr({nullptr, flat->memory.device()}));
    storage.set_nbytes(0);
  }
  units_[index].state = State::Released;
}

void ShardedWeights::gradients_complete(size_t unit) {
  if (!units_[unit].is_frozen) release(unit);
}

void ShardedWeights::begin_pass() {
  if (!knows_order_ && first_pass_.size() == order_.size()) {
    order_ = first_pass_;
    knows_order_ = true;
  }
  first_pass_.clear();
  gather(0);
  start(order_.front());
}

void ShardedWeights::end_pass() {
  for (size_t unit = 0; unit < units_.size(); ++unit) release(unit);
}

void ShardedWeights::prefetch_after(size_t unit, int direction) {
  const auto place = std::ranges::find(order_, unit) - order_.begin();
  const auto next = place + direction;
  if (next >= 0 && next < std::ssize(order_)) start(order_[static_cast<size_t>(next)]);
}

void ShardedWeights::before_unit(size_t unit) {
  gather(unit);
  if (!knows_order_) first_pass_.push_back(unit);
  prefetch_after(unit, +1);
}

void ShardedWeights::after_unit(size_t unit, const at::Tensor& output) {
  const bool has_backward = at::GradMode::is_enabled() && output.requires_grad();
  // The backward pass begins with the last unit.
  if (!has_backward || unit != order_.back()) release(unit);
  if (has_backward)
    output.register_hook([this, unit](const at::Tensor&) { before_backward(unit); });
}

void ShardedWeights::hold_units(const std::vector<size_t>& units, const std::vector<size_t>& next) {
  for (size_t unit = 1; unit < units_.size(); ++unit)
    if (!std::ranges::count(units, unit) && !std::ranges::count(next, unit)) release(unit);
  for (const auto unit : units) gather(unit);
  for (const auto unit : next) start(unit);
}

void ShardedWeights::before_backward(size_t unit) {
  for (size_t other = 1; other < units_.size(); ++other)
    if (other != unit && units_[other].is_frozen) release(other);
  gather(unit);
  prefetch_after(unit, -1);
}

}  // namespace lockstep::distributed
