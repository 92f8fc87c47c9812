#include "distributed/shared_gradients.h"

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

#include "core/error.h"

namespace lockstep {
namespace {

// Less goes through the slots.
constexpr size_t kSmallestInRegion = size_t{32} << 10;
constexpr size_t kCacheLineBytes = 64;

class Arrival final : public torch::autograd::PostAccumulateGradHook {
 public:
  explicit Arrival(std::function<void()> tell) : tell_(std::move(tell)) {}
  void operator()(const torch::autograd::Variable&) override { tell_(); }

 private:
  std::function<void()> tell_;
};

// With room for each bucket to begin at a cache line.
size_t bytes_of_gradients(const std::vector<at::Tensor>& parameters) {
  size_t bytes = 0;
  for (const auto& parameter : parameters) bytes += parameter.nbytes() + kCacheLineBytes;
  return bytes;
}

}  // namespace

SharedGradients::SharedGradients(ShmBackend& backend, std::vector<at::Tensor> parameters,
                                 std::vector<std::string> names, const BucketCaps& caps)
    : backend_(backend),
      parameters_(std::move(parameters)),
      names_(std::move(names)),
      caps_(caps),
      buckets_(unordered_buckets(parameters_)) {
  const auto bytes = bytes_of_gradients(parameters_);
  if (bytes >= kSmallestInRegion) region_ = backend_.allocate(bytes);
  if (!region_) return;
  lay_out();
  watch();
}

SharedGradients::~SharedGradients() {
  if (!is_watching_) return;
  for (const auto& parameter : parameters_)
    torch::autograd::impl::set_post_acc_grad_hooks(parameter, nullptr);
}

void SharedGradients::begin() {
  if (!order_.empty() || is_noting_) return;
  is_noting_ = true;
  watch();
}

void SharedGradients::watch() {
  if (is_watching_) return;
  is_watching_ = true;
  for (size_t i = 0; i < parameters_.size(); ++i)
    torch::autograd::impl::set_post_acc_grad_hooks(
        parameters_[i], std::make_unique<Arrival>([this, i] { arrived(i); }));
}

void SharedGradients::arrived(size_t index) {
  if (is_noting_) ready_order_.push_back(static_cast<int64_t>(index));
  if (region_) move_in(index);
}

// Of gradients that lie there already the content goes along.
void SharedGradients::lay_out() {
  std::vector<at::Tensor> moved(parameters_.size());
  for (size_t i = 0; i < places_.size(); ++i)
    if (parameters_[i].grad().is_same(places_[i])) moved[i] = places_[i].clone();
  places_.resize(parameters_.size());
  stretches_.clear();
  size_t offset = 0;
  for (const auto& bucket : buckets_) {
    offset = (offset + kCacheLineBytes - 1) / kCacheLineBytes * kCacheLineBytes;
    const auto type = parameters_[bucket.front()].scalar_type();
    stretches_.push_back({offset, 0, element_type_of(type)});
    for (const auto index : bucket) {
      const auto& parameter = parameters_[index];
      places_[index] = at::from_blob(
          region_->data() + offset, parameter.sizes(), [region = region_](void*) {}, type);
      offset += parameter.nbytes();
      stretches_.back().count += static_cast<size_t>(parameter.numel());
    }
  }
  for (size_t i = 0; i < moved.size(); ++i) {
    if (!moved[i].defined()) continue;
    places_[i].copy_(moved[i]);
    parameters_[i].mutable_grad() = places_[i];
  }
}

void SharedGradients::move_in(size_t index) {
  auto& gradient = parameters_[index].mutable_grad();
  const auto& place = places_[index];
  if (gradient.is_same(place)) return;  // it grew there
  const auto dense = gradient.contiguous();
  std::memcpy(place.mutable_data_ptr(), dense.const_data_ptr(), place.nbytes());
  gradient = place;
}

void SharedGradients::restore_order(const std::vector<int64_t>& order) {
  order_ = order;
  buckets_ = buckets_in_order(parameters_, order_, caps_);
  if (region_) lay_out();
}

void SharedGradients::begin_with_all_ready() {
  if (!order_.empty()) return;
  stop_noting();
  ready_order_.clear();
  for (auto i = static_cast<int64_t>(parameters_.size()); i > 0; --i) ready_order_.push_back(i - 1);
}

void SharedGradients::stop_noting() {
  is_noting_ = false;
  if (region_ || !is_watching_) return;
  for (const auto& parameter : parameters_)
    torch::autograd::impl::set_post_acc_grad_hooks(parameter, nullptr);
  is_watching_ = false;
}

void SharedGradients::refuse(size_t index) const {
  throw config_error(fmt::format(
      "parameter '{}' got no gradient in this step; models that do not use every parameter in "
      "every step need distributed.find_unused_parameters=true",
      names_[index]));
}

at::Tensor& SharedGradients::dense_gradient(size_t index) {
  auto& gradient = parameters_[index].mutable_grad();
  if (!gradient.defined()) refuse(index);
  if (!gradient.is_contiguous()) gradient = gradient.contiguous();
  return gradient;
}

void SharedGradients::average_from(size_t first) {
  const at::NoGradGuard no_grad;
  const auto is_there = [first](size_t index) { return index >= first; };
  auto end = next_bucket_;
  while (end < buckets_.size() && std::ranges::all_of(buckets_[end], is_there)) ++end;
  if (region_)
    average_in_region(end);
  else
    average_through_slots(end);
  next_bucket_ = end;
}

void SharedGradients::average() {
  average_from(0);
  next_bucket_ = 0;
  if (order_.empty()) arrange_by_order();
}

void SharedGradients::average_in_region(size_t end) {
  for (auto bucket = next_bucket_; bucket < end; ++bucket)
    for (const auto index : buckets_[bucket]) {
      if (!parameters_[index].grad().defined()) refuse(index);
      move_in(index);  // what no autograd has made
    }
  backend_.average_in(*region_, std::span(stretches_).subspan(next_bucket_, end - next_bucket_));
}

void SharedGradients::average_through_slots(size_t end) {
  for (auto bucket = next_bucket_; bucket < end; ++bucket) {
    gradients_.clear();
    for (const auto index : buckets_[bucket]) gradients_.push_back(dense_gradient(index));
    backend_.average(gradients_);
  }
  gradients_.clear();
}

void SharedGradients::arrange_by_order() {
  for (size_t i = 0; i < parameters_.size(); ++i)  // it may have one of an earlier backward pass
    if (std::find(ready_order_.begin(), ready_order_.end(), static_cast<int64_t>(i)) ==
        ready_order_.end())
      refuse(i);
  check(ready_order_.size() == parameters_.size(), "every gradient becomes ready once");
  std::vector<at::Tensor> sent = {at::tensor(ready_order_)};
  stop_noting();
  backend_.broadcast(sent, {});
  const auto* const first = sent[0].const_data_ptr<int64_t>();
  restore_order({first, first + sent[0].numel()});
}

}  // namespace lockstep
