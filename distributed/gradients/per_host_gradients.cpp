#include "distributed/gradients/per_host_gradients.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <utility>

#include "distributed/backends/process_groups.h"
#include "distributed/fence.h"

namespace lockstep::distributed {

PerHostGradients::PerHostGradients(World& world, NamedTensors parameters,
                                   std::vector<at::Tensor> averages,
                                   const DataParallelConfig& config)
    : OrderedGradients(world, std::move(parameters), config), averages_(std::move(averages)) {
  if (const auto& peers = world.groups().peers) hosts_.emplace(*peers);
  layout_buckets();
  keep_hooks();
}

void PerHostGradients::layout_buckets() {
  // Before the order is known, the last parameter is usually ready first.
  const auto known = order();
  sequence_.assign(known.begin(), known.end());
  for (auto i = parameters().size(); sequence_.size() < parameters().size(); --i)
    sequence_.push_back(i - 1);
  unit_ends_.clear();
  size_t bytes = 0;
  for (size_t i = 0; i < sequence_.size(); ++i) {
    bytes += parameter(sequence_[i]).nbytes();
    const bool is_last = i + 1 == sequence_.size();
    if (!is_last && bytes < caps().bytes &&
        parameter(sequence_[i + 1]).scalar_type() == parameter(sequence_[i]).scalar_type())
      continue;
    unit_ends_.push_back(i + 1);
    bytes = 0;
  }
}

void PerHostGradients::add_gradients(const std::shared_ptr<GivenGradients>& gradients,
                                     bool synchronize) {
  begin_pass(synchronize);
  if (!synchronize) return add_to_parameters(parameters(), *gradients);
  set_reverse_ready_order();
  add_to_parameters(parameters(), *gradients, [this](size_t first) {
    std::fill(is_ready_.begin() + static_cast<std::ptrdiff_t>(first), is_ready_.end(), true);
    exchange_ready_units();
  });
  finish_pass();
}

void PerHostGradients::begin_pass(bool synchronize) {
  is_synchronizing_ = synchronize;
  is_ready_.assign(parameters().size(), false);
  next_unit_ = 0;
  waited_ = {};
  // Autograd adds in place, which only memory of this rank allows.
  for (size_t i = 0; i < parameters().size(); ++i)
    if (auto& gradient = parameter(i).mutable_grad(); gradient.is_same(averages_[i]))
      gradient = gradient.clone();
}

void PerHostGradients::on_gradient_ready(size_t index) {
  if (!is_synchronizing_) return;
  is_ready_[index] = true;
  exchange_ready_units();
}

void PerHostGradients::exchange_ready_units() {
  while (next_unit_ < unit_ends_.size()) {
    const auto begin = next_unit_ == 0 ? 0 : unit_ends_[next_unit_ - 1];
    const auto end = unit_ends_[next_unit_];
    for (auto i = begin; i < end; ++i)
      if (!is_ready_[sequence_[i]]) return;
    exchange(begin, end);
    ++next_unit_;
  }
}

// Collective. Averages the gradients of a range of sequence_.
void PerHostGradients::exchange(size_t begin, size_t end) {
  const at::NoGradGuard no_grad;
  const auto started = std::chrono::steady_clock::now();
  std::vector<at::Tensor> gradients;
  std::vector<shm::Group::PerHostPart> parts;
  for (auto i = begin; i < end; ++i) {
    const auto index = sequence_[i];
    if (!parameter(index).grad().defined()) throw_missing_gradient(index);
    const auto& gradient = gradients.emplace_back(parameter(index).grad().contiguous());
    parts.push_back(
        {{static_cast<std::byte*>(gradient.mutable_data_ptr()),
          static_cast<size_t>(gradient.numel()), element_type_of(gradient.scalar_type())},
         static_cast<std::byte*>(averages_[index].mutable_data_ptr()),
         place(index).offset,
         place(index).bucket_size});
  }
  std::vector<shm::Group::PerHostPart> own;
  fenced(world().host(), "gradient reduce_scatter", [&] {
    backend().with_group([&](shm::Group& group, shm::Clock::time_point deadline) {
      own = group.average_per_host(parts, averaging(), deadline);
    });
  });
  if (hosts_) fenced(world(), "gradient exchange of hosts", [&] { hosts_->start(std::move(own)); });
  for (auto i = begin; i < end; ++i)
    parameter(sequence_[i]).mutable_grad() = averages_[sequence_[i]];
  waited_ += std::chrono::steady_clock::now() - started;
}

void PerHostGradients::finish_pass() {
  is_synchronizing_ = false;
  std::fill(is_ready_.begin(), is_ready_.end(), true);
  exchange_ready_units();
  const auto started = std::chrono::steady_clock::now();
  if (hosts_) fenced(world(), "gradient exchange of hosts", [&] { hosts_->finish(); });
  fenced(world().host(), "gradient reduce_scatter", [&] {
    backend().with_group([](shm::Group& group, shm::Clock::time_point deadline) {
      group.barrier(deadline);  // the other ranks' averages are complete, and their backward pass
    });
  });
  update_buckets();
  set_exposed_wait(waited_ + (std::chrono::steady_clock::now() - started));
}

}  // namespace lockstep::distributed
