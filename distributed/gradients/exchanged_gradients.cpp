#include "distributed/gradients/exchanged_gradients.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <utility>

#include "distributed/backends/process_groups.h"
#include "distributed/fence.h"
#include "distributed/shm/reduction.h"
#include "distributed/torch_versions.h"

namespace lockstep::distributed {
namespace {

// Flat memory of `numel` elements in `buffer`.
at::Tensor part_of(const at::Tensor& buffer, int64_t numel, const at::TensorOptions& options) {
  const auto bytes = numel * static_cast<int64_t>(options.dtype().itemsize());
  return buffer.narrow(0, 0, bytes).view(c10::typeMetaToScalarType(options.dtype()));
}

}  // namespace

ExchangedGradients::ExchangedGradients(World& world, FlatParameters& flat, ShardedWeights* weights,
                                       const DataParallelConfig& config)
    : OrderedGradients(world, flat.parameters(), config),
      flat_(flat),
      weights_(weights),
      unit_of_(parameters().size()) {
  int64_t bytes = 0;
  for (const auto& each : flat_.flats()) {
    bytes = std::max(bytes, world.world_size() * static_cast<int64_t>(each.own.nbytes()));
    unit_sizes_.resize(std::max(unit_sizes_.size(), each.unit + 1));
    unit_sizes_[each.unit] += each.places.size();
    for (const auto& [index, first] : each.places) unit_of_[index] = each.unit;
  }
  // Now, because memory that is kept between activations would divide what they leave free.
  const auto options = flat_.flats().front().own.options().dtype(at::kByte);
  send_buffer_ = at::empty({bytes}, options);
  receive_buffer_ = at::empty({bytes}, options);
  keep_hooks();
}

void ExchangedGradients::add_gradients(const std::shared_ptr<GivenGradients>& gradients,
                                       bool synchronize) {
  begin_pass(synchronize);
  if (!synchronize) return add_to_parameters(parameters(), *gradients);
  set_reverse_ready_order();
  auto next = parameters().size();
  const auto mark_from = [&](size_t first) {
    while (next > first) on_gradient_ready(--next);
  };
  add_to_parameters(parameters(), *gradients, mark_from);
  mark_from(0);
  finish_pass();
}

void ExchangedGradients::begin_pass(bool synchronize) {
  is_synchronizing_ = synchronize;
  num_missing_ = unit_sizes_;
  num_exchanged_ = 0;
  waited_ = {};
}

void ExchangedGradients::on_gradient_ready(size_t index) {
  const auto unit = unit_of_[index];
  if (num_missing_[unit] > 0 && --num_missing_[unit] > 0) return;
  if (weights_ && unit != 0) weights_->gradients_complete(unit);
  if (is_synchronizing_) exchange_ready_units();
}

void ExchangedGradients::exchange_ready_units() {
  for (; num_exchanged_ < unit_sizes_.size(); ++num_exchanged_) {
    const auto unit = unit_sizes_.size() - 1 - num_exchanged_;
    if (num_missing_[unit] > 0) return;
    for (auto& flat : flat_.flats())
      if (flat.unit == unit) start_exchange(flat);
  }
}

// Collective, but waits for the exchange before this one only.
void ExchangedGradients::start_exchange(FlatParameters::Flat& flat) {
  const at::NoGradGuard no_grad;
  finish_exchange();
  const auto size = world().world_size() * flat.chunk;
  const auto options = flat.own.options();
  Pending next{.flat = &flat,
               .work = {},
               .sent = part_of(send_buffer_, size, options),
               .received = part_of(receive_buffer_, size, options)};
  for (const auto& [index, first] : flat.places) {
    auto& gradient = parameter(index).mutable_grad();
    if (!gradient.defined()) throw_missing_gradient(index);
    auto place =
        at::as_strided(next.sent, parameter(index).sizes(), parameter(index).strides(), first);
    at::mul_out(place, gradient, at::scalar_tensor(averaging().factor, at::kDouble));
    gradient.reset();
  }
  std::vector<int64_t> equal;
  next.work =
      exchange_parts(world().groups().of(next.sent), next.received, next.sent, equal, equal);
  pending_ = std::move(next);
}

void ExchangedGradients::finish_exchange() {
  if (!pending_) return;
  const auto begin = std::chrono::steady_clock::now();
  fenced(world(), "gradient reduce_scatter", [&] { pending_->work->wait(); });
  average(*pending_->flat, pending_->received);
  pending_.reset();
  waited_ += std::chrono::steady_clock::now() - begin;
}

// Adds what the ranks sent, in the order of the all-reduce.
void ExchangedGradients::average(const FlatParameters::Flat& flat,
                                 const at::Tensor& received) const {
  const at::NoGradGuard no_grad;
  const auto num_ranks = world().world_size();
  const auto own_begin = world().rank() * flat.chunk;
  std::vector<const std::byte*> sources(static_cast<size_t>(num_ranks));
  for (const auto& [index, first] : flat.places) {
    const auto begin = std::max(first, own_begin);
    const auto end = std::min(first + parameter(index).numel(), own_begin + flat.chunk);
    if (begin >= end) continue;
    const auto element_size = static_cast<size_t>(flat.own.element_size());
    const shm::SumOrder order(num_ranks, place(index).bucket_size, element_size, averaging().kind);
    const auto offset = static_cast<int64_t>(place(index).offset) - first;  // into the bucket
    const auto add = [&](int chunk, size_t from, size_t to) {
      const auto in_chunk = static_cast<int64_t>(from) - offset - own_begin;
      const auto count = static_cast<int64_t>(to - from);
      const auto summand = [&](int i) {
        return received.narrow(0, order.rank_at(chunk, i) * flat.chunk + in_chunk, count);
      };
      auto sum = flat.gradient.narrow(0, in_chunk, count);
      if (!sum.is_cpu()) {
        sum.copy_(summand(0));
        for (int i = 1; i < num_ranks; ++i) sum.add_(summand(i));
        return;
      }
      for (int i = 0; i < num_ranks; ++i)
        sources[static_cast<size_t>(i)] =
            static_cast<const std::byte*>(summand(i).const_data_ptr());
      order.add(static_cast<std::byte*>(sum.mutable_data_ptr()), sources,
                static_cast<size_t>(count), element_type_of(sum.scalar_type()));
    };
    order.for_each_chunk(static_cast<size_t>(begin + offset), static_cast<size_t>(end + offset),
                         add);
  }
}

void ExchangedGradients::finish_pass() {
  const auto begin = std::chrono::steady_clock::now();
  for (size_t i = 0; i < parameters().size(); ++i)
    if (num_missing_[unit_of_[i]] > 0 && !parameter(i).grad().defined()) throw_missing_gradient(i);
  std::ranges::fill(num_missing_, 0);  // gradients may be left over from an earlier backward pass
  exchange_ready_units();
  finish_exchange();
  is_synchronizing_ = false;
  update_buckets();
  set_exposed_wait(
      std::max(waited_, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin)));
}

}  // namespace lockstep::distributed
