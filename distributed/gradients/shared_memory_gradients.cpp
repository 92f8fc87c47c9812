#include "distributed/gradients/shared_memory_gradients.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "distributed/backends/process_groups.h"
#include "distributed/fence.h"

namespace lockstep::distributed {
namespace {

// Smaller models reduce through the slots.
constexpr size_t kMinSymmetricBytes = size_t{32} << 10;
constexpr size_t kCacheLineBytes = 64;

// Includes padding to align each bucket to a cache line.
size_t bytes_of_gradients(const NamedTensors& parameters) {
  size_t bytes = 0;
  for (const auto& [name, parameter] : parameters) bytes += parameter.nbytes() + kCacheLineBytes;
  return bytes;
}

}  // namespace

std::unique_ptr<SharedMemoryGradients> SharedMemoryGradients::create(
    World& world, NamedTensors parameters, const DataParallelConfig& config) {
  const auto bytes = bytes_of_gradients(parameters);
  std::shared_ptr<shm::SymmetricBuffer> buffer;
  if (bytes >= kMinSymmetricBytes) buffer = world.groups().shared->allocate(bytes);
  return std::unique_ptr<SharedMemoryGradients>(
      new SharedMemoryGradients(world, std::move(parameters), config, std::move(buffer)));
}

SharedMemoryGradients::SharedMemoryGradients(World& world, NamedTensors parameters,
                                             const DataParallelConfig& config,
                                             std::shared_ptr<shm::SymmetricBuffer> buffer)
    : OrderedGradients(world, std::move(parameters), config), buffer_(std::move(buffer)) {
  if (!buffer_) return;
  layout_buckets();
  keep_hooks();
}

void SharedMemoryGradients::add_gradients(const std::shared_ptr<GivenGradients>& gradients,
                                          bool synchronize) {
  if (!synchronize) return add_to_parameters(parameters(), *gradients);
  set_reverse_ready_order();
  add_to_parameters(parameters(), *gradients, [this](size_t first) { start_average(first); });
  finish_pass();
}

void SharedMemoryGradients::on_gradient_ready(size_t index) {
  if (buffer_) move_to_buffer(index);
}

// Assigns each bucket a range of the buffer. Keeps the values of gradients that are already in it.
void SharedMemoryGradients::layout_buckets() {
  if (!buffer_) return;
  std::vector<at::Tensor> moved(parameters().size());
  for (size_t i = 0; i < gradient_views_.size(); ++i)
    if (parameter(i).grad().is_same(gradient_views_[i])) moved[i] = gradient_views_[i].clone();
  gradient_views_.resize(parameters().size());
  bucket_ranges_.clear();
  size_t offset = 0;
  for (const auto& bucket : buckets()) {
    offset = (offset + kCacheLineBytes - 1) / kCacheLineBytes * kCacheLineBytes;
    const auto type = parameter(bucket.front()).scalar_type();
    bucket_ranges_.push_back({offset, 0, element_type_of(type)});
    for (const auto index : bucket) {
      const auto& like = parameter(index);
      gradient_views_[index] = at::from_blob(
          buffer_->data() + offset, like.sizes(), [buffer = buffer_](void*) {}, type);
      offset += like.nbytes();
      bucket_ranges_.back().count += static_cast<size_t>(like.numel());
    }
  }
  for (size_t i = 0; i < moved.size(); ++i) {
    if (!moved[i].defined()) continue;
    gradient_views_[i].copy_(moved[i]);
    parameter(i).mutable_grad() = gradient_views_[i];
  }
}

void SharedMemoryGradients::move_to_buffer(size_t index) {
  auto& gradient = parameter(index).mutable_grad();
  const auto& view = gradient_views_[index];
  if (gradient.is_same(view)) return;  // accumulated in place
  const auto dense = gradient.contiguous();
  std::memcpy(view.mutable_data_ptr(), dense.const_data_ptr(), view.nbytes());
  gradient = view;
}

void SharedMemoryGradients::finish_pass() {
  const auto ready = std::chrono::steady_clock::now();
  fenced(world(), "gradient all_reduce", [&] {
    if (pending_average_.valid()) pending_average_.get();
    average_from(0);
    next_bucket_ = 0;
    update_buckets();
  });
  set_exposed_wait(std::chrono::steady_clock::now() - ready);
}

// Starts average_from() on another thread: shared-memory collectives block the thread they run on.
void SharedMemoryGradients::start_average(size_t first) {
  fenced(world(), "gradient all_reduce", [&] {
    if (pending_average_.valid()) pending_average_.get();
    pending_average_ = std::async(std::launch::async, [this, first] { average_from(first); });
  });
}

// Collective. Averages the buckets, from next_bucket_ on, whose gradients are all ready. Gradients
// of the parameters from `first` on are ready.
void SharedMemoryGradients::average_from(size_t first) {
  const at::NoGradGuard no_grad;
  const auto is_ready = [first](size_t index) { return index >= first; };
  auto end = next_bucket_;
  while (end < buckets().size() && std::ranges::all_of(buckets()[end], is_ready)) ++end;
  if (buffer_)
    average_in_symmetric_buffer(end);
  else
    average_through_slots(end);
  next_bucket_ = end;
}

void SharedMemoryGradients::average_in_symmetric_buffer(size_t end) {
  for (auto bucket = next_bucket_; bucket < end; ++bucket)
    for (const auto index : buckets()[bucket]) {
      if (!parameter(index).grad().defined()) throw_missing_gradient(index);
      move_to_buffer(index);  // gradients that are not from autograd
    }
  const auto ranges = std::span(bucket_ranges_).subspan(next_bucket_, end - next_bucket_);
  backend().with_group([&](shm::Group& group, shm::Clock::time_point deadline) {
    group.average_in_buffer(*buffer_, ranges, averaging(), deadline);
  });
}

void SharedMemoryGradients::average_through_slots(size_t end) {
  for (auto bucket = next_bucket_; bucket < end; ++bucket) {
    parts_.clear();
    size_t count = 0;
    for (const auto index : buckets()[bucket]) {
      auto& gradient = parameter(index).mutable_grad();
      if (!gradient.defined()) throw_missing_gradient(index);
      if (!gradient.is_contiguous()) gradient = gradient.contiguous();
      parts_.push_back({static_cast<std::byte*>(gradient.mutable_data_ptr()),
                        static_cast<size_t>(gradient.numel()),
                        element_type_of(gradient.scalar_type())});
      count += parts_.back().count;
    }
    backend().with_group([&](shm::Group& group, shm::Clock::time_point deadline) {
      group.average_parts(parts_, count, averaging(), deadline);
    });
  }
}

}  // namespace lockstep::distributed
