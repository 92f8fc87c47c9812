#include "distributed/gradients/shared_memory_gradients.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <span>
#include <utility>

#include "distributed/backends/process_groups.h"
#include "distributed/fence.h"
#include "lockstep/error.h"

namespace lockstep::distributed {
namespace {

// Smaller models reduce through the slots.
constexpr size_t kMinSymmetricBytes = size_t{32} << 10;
constexpr size_t kCacheLineBytes = 64;

class GradientReadyHook final : public torch::autograd::PostAccumulateGradHook {
 public:
  explicit GradientReadyHook(std::function<void()> callback) : callback_(std::move(callback)) {}
  void operator()(const torch::autograd::Variable&) override { callback_(); }

 private:
  std::function<void()> callback_;
};

// Includes padding to align each bucket to a cache line.
size_t bytes_of_gradients(const NamedTensors& parameters) {
  size_t bytes = 0;
  for (const auto& [name, parameter] : parameters) bytes += parameter.nbytes() + kCacheLineBytes;
  return bytes;
}

}  // namespace

SharedMemoryGradients::SharedMemoryGradients(World& world, NamedTensors parameters,
                                             const BucketCaps& caps)
    : GradientSynchronizer(std::move(parameters)),
      world_(world),
      backend_(*world.groups().shared),
      caps_(caps),
      buckets_(unordered_buckets(this->parameters())) {
  const auto bytes = bytes_of_gradients(this->parameters());
  if (bytes >= kMinSymmetricBytes) buffer_ = backend_.allocate(bytes);
  if (!buffer_) return;
  layout_buckets();
  register_hooks();
}

SharedMemoryGradients::~SharedMemoryGradients() { remove_hooks(); }

void SharedMemoryGradients::backward(const at::Tensor& loss, bool synchronize) {
  if (synchronize) record_ready_order();
  loss.backward();
  if (synchronize) average();
}

void SharedMemoryGradients::add_gradients(const std::shared_ptr<GivenGradients>& gradients,
                                          bool synchronize) {
  if (!synchronize) return add_to_parameters(parameters(), *gradients);
  set_reverse_ready_order();
  add_to_parameters(parameters(), *gradients, [this](size_t first) { start_average(first); });
  average();
}

// Records the order in the first synchronized autograd backward pass.
void SharedMemoryGradients::record_ready_order() {
  if (!order_.empty() || is_recording_order_) return;
  is_recording_order_ = true;
  register_hooks();
}

// For a first step without autograd: the order is from the last parameter to the first.
void SharedMemoryGradients::set_reverse_ready_order() {
  if (!order_.empty()) return;
  stop_recording_order();
  ready_order_.clear();
  for (auto i = static_cast<int64_t>(parameters().size()); i > 0; --i)
    ready_order_.push_back(i - 1);
}

void SharedMemoryGradients::stop_recording_order() {
  is_recording_order_ = false;
  if (!buffer_) remove_hooks();
}

void SharedMemoryGradients::register_hooks() {
  if (has_hooks_) return;
  has_hooks_ = true;
  for (size_t i = 0; i < parameters().size(); ++i)
    torch::autograd::impl::set_post_acc_grad_hooks(
        parameter(i), std::make_unique<GradientReadyHook>([this, i] { on_gradient_ready(i); }));
}

void SharedMemoryGradients::remove_hooks() {
  if (!has_hooks_) return;
  has_hooks_ = false;
  for (const auto& [name, parameter] : parameters())
    torch::autograd::impl::set_post_acc_grad_hooks(parameter, nullptr);
}

void SharedMemoryGradients::on_gradient_ready(size_t index) {
  if (is_recording_order_) ready_order_.push_back(static_cast<int64_t>(index));
  if (buffer_) move_to_buffer(index);
}

// Assigns each bucket a range of the buffer. Keeps the values of gradients that are already in it.
void SharedMemoryGradients::layout_buckets() {
  std::vector<at::Tensor> moved(parameters().size());
  for (size_t i = 0; i < gradient_views_.size(); ++i)
    if (parameter(i).grad().is_same(gradient_views_[i])) moved[i] = gradient_views_[i].clone();
  gradient_views_.resize(parameters().size());
  bucket_ranges_.clear();
  size_t offset = 0;
  for (const auto& bucket : buckets_) {
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

void SharedMemoryGradients::restore_order(const std::vector<int64_t>& order) {
  order_ = order;
  buckets_ = buckets_in_order(parameters(), order_, caps_);
  if (buffer_) layout_buckets();
}

void SharedMemoryGradients::throw_missing_gradient(size_t index) const {
  throw config_error(fmt::format(
      "parameter '{}' got no gradient in this step; models that do not use every parameter in "
      "every step need distributed.find_unused_parameters=true",
      parameters()[index].first));
}

void SharedMemoryGradients::average() {
  const auto ready = std::chrono::steady_clock::now();
  fenced(world_, "gradient all_reduce", [&] {
    if (pending_average_.valid()) pending_average_.get();
    average_from(0);
    next_bucket_ = 0;
    if (order_.empty()) rebuild_buckets();
  });
  exposed_wait_ = std::chrono::steady_clock::now() - ready;
}

// Starts average_from() on another thread: shared-memory collectives block the thread they run on.
void SharedMemoryGradients::start_average(size_t first) {
  fenced(world_, "gradient all_reduce", [&] {
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
  while (end < buckets_.size() && std::ranges::all_of(buckets_[end], is_ready)) ++end;
  if (buffer_)
    average_in_symmetric_buffer(end);
  else
    average_through_slots(end);
  next_bucket_ = end;
}

void SharedMemoryGradients::average_in_symmetric_buffer(size_t end) {
  for (auto bucket = next_bucket_; bucket < end; ++bucket)
    for (const auto index : buckets_[bucket]) {
      if (!parameter(index).grad().defined()) throw_missing_gradient(index);
      move_to_buffer(index);  // gradients that are not from autograd
    }
  const auto ranges = std::span(bucket_ranges_).subspan(next_bucket_, end - next_bucket_);
  backend_.with_group([&](shm::Group& group, shm::Clock::time_point deadline) {
    group.average_in_buffer(*buffer_, ranges, 1.0 / group.num_ranks(), deadline);
  });
}

void SharedMemoryGradients::average_through_slots(size_t end) {
  for (auto bucket = next_bucket_; bucket < end; ++bucket) {
    parts_.clear();
    size_t count = 0;
    for (const auto index : buckets_[bucket]) {
      auto& gradient = parameter(index).mutable_grad();
      if (!gradient.defined()) throw_missing_gradient(index);
      if (!gradient.is_contiguous()) gradient = gradient.contiguous();
      parts_.push_back({static_cast<std::byte*>(gradient.mutable_data_ptr()),
                        static_cast<size_t>(gradient.numel()),
                        element_type_of(gradient.scalar_type())});
      count += parts_.back().count;
    }
    backend_.with_group([&](shm::Group& group, shm::Clock::time_point deadline) {
      group.average_parts(parts_, count, 1.0 / group.num_ranks(), deadline);
    });
  }
}

// Collective. Rebuilds the buckets in rank 0's order.
void SharedMemoryGradients::rebuild_buckets() {
  // A gradient may be left over from an earlier backward pass.
  for (size_t i = 0; i < parameters().size(); ++i)
    if (std::ranges::find(ready_order_, static_cast<int64_t>(i)) == ready_order_.end())
      throw_missing_gradient(i);
  check(ready_order_.size() == parameters().size(), "a gradient became ready more than once");
  stop_recording_order();
  backend_.with_group([&](shm::Group& group, shm::Clock::time_point deadline) {
    group.broadcast({reinterpret_cast<std::byte*>(ready_order_.data()), ready_order_.size(),
                     shm::ElementType::Int64},
                    0, deadline);
  });
  restore_order(ready_order_);
}

}  // namespace lockstep::distributed
