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

// Less goes through the slots.
constexpr size_t kMinSymmetricBytes = size_t{32} << 10;
constexpr size_t kCacheLineBytes = 64;

class Arrival final : public torch::autograd::PostAccumulateGradHook {
 public:
  explicit Arrival(std::function<void()> tell) : tell_(std::move(tell)) {}
  void operator()(const torch::autograd::Variable&) override { tell_(); }

 private:
  std::function<void()> tell_;
};

// With room for each bucket to begin at a cache line.
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
  if (bytes >= kMinSymmetricBytes) symmetric_ = backend_.allocate(bytes);
  if (!symmetric_) return;
  lay_out();
  watch();
}

SharedMemoryGradients::~SharedMemoryGradients() { stop_watching(); }

void SharedMemoryGradients::backward(const at::Tensor& loss, bool synchronize) {
  if (synchronize) note_order();
  loss.backward();
  if (synchronize) average();
}

void SharedMemoryGradients::add_gradients(const std::shared_ptr<GivenGradients>& gradients,
                                          bool synchronize) {
  if (!synchronize) return add_to_parameters(parameters(), *gradients);
  note_falling_order();
  add_to_parameters(parameters(), *gradients, [this](size_t first) { begin_average(first); });
  average();
}

// Of the first backward pass of autograd that is averaged.
void SharedMemoryGradients::note_order() {
  if (!order_.empty() || is_noting_) return;
  is_noting_ = true;
  watch();
}

// That of a first step where no autograd was at work: gradients count as having become ready from
// the last parameter to the first.
void SharedMemoryGradients::note_falling_order() {
  if (!order_.empty()) return;
  stop_noting();
  ready_order_.clear();
  for (auto i = static_cast<int64_t>(parameters().size()); i > 0; --i)
    ready_order_.push_back(i - 1);
}

void SharedMemoryGradients::stop_noting() {
  is_noting_ = false;
  if (!symmetric_) stop_watching();
}

void SharedMemoryGradients::watch() {
  if (is_watching_) return;
  is_watching_ = true;
  for (size_t i = 0; i < parameters().size(); ++i)
    torch::autograd::impl::set_post_acc_grad_hooks(
        parameter(i), std::make_unique<Arrival>([this, i] { arrived(i); }));
}

void SharedMemoryGradients::stop_watching() {
  if (!is_watching_) return;
  is_watching_ = false;
  for (const auto& [name, parameter] : parameters())
    torch::autograd::impl::set_post_acc_grad_hooks(parameter, nullptr);
}

void SharedMemoryGradients::arrived(size_t index) {
  if (is_noting_) ready_order_.push_back(static_cast<int64_t>(index));
  if (symmetric_) move_in(index);
}

// Of gradients that lie there already the content goes along.
void SharedMemoryGradients::lay_out() {
  std::vector<at::Tensor> moved(parameters().size());
  for (size_t i = 0; i < places_.size(); ++i)
    if (parameter(i).grad().is_same(places_[i])) moved[i] = places_[i].clone();
  places_.resize(parameters().size());
  stretches_.clear();
  size_t offset = 0;
  for (const auto& bucket : buckets_) {
    offset = (offset + kCacheLineBytes - 1) / kCacheLineBytes * kCacheLineBytes;
    const auto type = parameter(bucket.front()).scalar_type();
    stretches_.push_back({offset, 0, element_type_of(type)});
    for (const auto index : bucket) {
      const auto& like = parameter(index);
      places_[index] = at::from_blob(
          symmetric_->data() + offset, like.sizes(), [buffer = symmetric_](void*) {}, type);
      offset += like.nbytes();
      stretches_.back().count += static_cast<size_t>(like.numel());
    }
  }
  for (size_t i = 0; i < moved.size(); ++i) {
    if (!moved[i].defined()) continue;
    places_[i].copy_(moved[i]);
    parameter(i).mutable_grad() = places_[i];
  }
}

void SharedMemoryGradients::move_in(size_t index) {
  auto& gradient = parameter(index).mutable_grad();
  const auto& place = places_[index];
  if (gradient.is_same(place)) return;  // it grew there
  const auto dense = gradient.contiguous();
  std::memcpy(place.mutable_data_ptr(), dense.const_data_ptr(), place.nbytes());
  gradient = place;
}

void SharedMemoryGradients::restore_order(const std::vector<int64_t>& order) {
  order_ = order;
  buckets_ = buckets_in_order(parameters(), order_, caps_);
  if (symmetric_) lay_out();
}

void SharedMemoryGradients::refuse(size_t index) const {
  throw config_error(fmt::format(
      "parameter '{}' got no gradient in this step; models that do not use every parameter in "
      "every step need distributed.find_unused_parameters=true",
      parameters()[index].first));
}

void SharedMemoryGradients::average() {
  const auto ready = std::chrono::steady_clock::now();
  fenced(world_, "gradient all_reduce", [&] {
    if (under_way_.valid()) under_way_.get();
    average_from(0);
    next_bucket_ = 0;
    if (order_.empty()) arrange_by_order();
  });
  exposed_wait_ = std::chrono::steady_clock::now() - ready;
}

// Collectives run on the thread that calls them.
void SharedMemoryGradients::begin_average(size_t first) {
  fenced(world_, "gradient all_reduce", [&] {
    if (under_way_.valid()) under_way_.get();
    under_way_ = std::async(std::launch::async, [this, first] { average_from(first); });
  });
}

// Collective. Gradients of the parameters from `first` on are there, and become the mean as far as
// whole buckets are, but for those that are already.
void SharedMemoryGradients::average_from(size_t first) {
  const at::NoGradGuard no_grad;
  const auto is_there = [first](size_t index) { return index >= first; };
  auto end = next_bucket_;
  while (end < buckets_.size() && std::ranges::all_of(buckets_[end], is_there)) ++end;
  if (symmetric_)
    average_in_symmetric_buffer(end);
  else
    average_through_slots(end);
  next_bucket_ = end;
}

void SharedMemoryGradients::average_in_symmetric_buffer(size_t end) {
  for (auto bucket = next_bucket_; bucket < end; ++bucket)
    for (const auto index : buckets_[bucket]) {
      if (!parameter(index).grad().defined()) refuse(index);
      move_in(index);  // what no autograd has made
    }
  const auto stretches = std::span(stretches_).subspan(next_bucket_, end - next_bucket_);
  backend_.with_group([&](shm::Group& group, shm::Clock::time_point deadline) {
    group.average_in(*symmetric_, stretches, 1.0 / group.num_ranks(), deadline);
  });
}

void SharedMemoryGradients::average_through_slots(size_t end) {
  for (auto bucket = next_bucket_; bucket < end; ++bucket) {
    parts_.clear();
    size_t count = 0;
    for (const auto index : buckets_[bucket]) {
      auto& gradient = parameter(index).mutable_grad();
      if (!gradient.defined()) refuse(index);
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

// Takes over rank 0's order.
void SharedMemoryGradients::arrange_by_order() {
  for (size_t i = 0; i < parameters().size(); ++i)  // it may have one of an earlier backward pass
    if (std::ranges::find(ready_order_, static_cast<int64_t>(i)) == ready_order_.end()) refuse(i);
  check(ready_order_.size() == parameters().size(), "every gradient becomes ready once");
  stop_noting();
  backend_.with_group([&](shm::Group& group, shm::Clock::time_point deadline) {
    group.broadcast({reinterpret_cast<std::byte*>(ready_order_.data()), ready_order_.size(),
                     shm::ElementType::Int64},
                    0, deadline);
  });
  restore_order(ready_order_);
}

}  // namespace lockstep::distributed
