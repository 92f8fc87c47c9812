#include "distributed/shared_gradients.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <utility>

#include "core/error.h"

namespace lockstep {
namespace {

class NoteReady final : public torch::autograd::PostAccumulateGradHook {
 public:
  NoteReady(std::vector<int64_t>& order, int64_t index) : order_(order), index_(index) {}
  void operator()(const torch::autograd::Variable&) override { order_.push_back(index_); }

 private:
  std::vector<int64_t>& order_;
  int64_t index_;
};

}  // namespace

SharedGradients::SharedGradients(ShmBackend& backend, std::vector<at::Tensor> parameters,
                                 std::vector<std::string> names, const BucketCaps& caps)
    : backend_(backend),
      parameters_(std::move(parameters)),
      names_(std::move(names)),
      caps_(caps),
      buckets_(unordered_buckets(parameters_)) {}

SharedGradients::~SharedGradients() { stop_watching(); }

void SharedGradients::begin() {
  if (!order_.empty() || is_watching_) return;
  for (size_t i = 0; i < parameters_.size(); ++i)
    torch::autograd::impl::set_post_acc_grad_hooks(
        parameters_[i], std::make_unique<NoteReady>(ready_order_, static_cast<int64_t>(i)));
  is_watching_ = true;
}

void SharedGradients::restore_order(const std::vector<int64_t>& order) {
  order_ = order;
  buckets_ = buckets_in_order(parameters_, order_, caps_);
}

void SharedGradients::begin_with_all_ready() {
  if (!order_.empty()) return;
  stop_watching();
  ready_order_.clear();
  for (auto i = static_cast<int64_t>(parameters_.size()); i > 0; --i) ready_order_.push_back(i - 1);
}

void SharedGradients::stop_watching() {
  if (!is_watching_) return;
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

void SharedGradients::average_bucket() {
  const at::NoGradGuard no_grad;
  for (const auto index : buckets_[next_bucket_]) gradients_.push_back(dense_gradient(index));
  backend_.average(gradients_);
  gradients_.clear();
  ++next_bucket_;
}

void SharedGradients::average_from(size_t first) {
  const auto is_there = [first](size_t index) { return index >= first; };
  while (next_bucket_ < buckets_.size() && std::ranges::all_of(buckets_[next_bucket_], is_there))
    average_bucket();
}

void SharedGradients::average() {
  average_from(0);
  next_bucket_ = 0;
  if (order_.empty()) arrange_by_order();
}

void SharedGradients::arrange_by_order() {
  for (size_t i = 0; i < parameters_.size(); ++i)  // it may have one of an earlier backward pass
    if (std::find(ready_order_.begin(), ready_order_.end(), static_cast<int64_t>(i)) ==
        ready_order_.end())
      refuse(i);
  check(ready_order_.size() == parameters_.size(), "every gradient becomes ready once");
  std::vector<at::Tensor> sent = {at::tensor(ready_order_)};
  stop_watching();
  backend_.broadcast(sent, {});
  const auto* const first = sent[0].const_data_ptr<int64_t>();
  restore_order({first, first + sent[0].numel()});
}

}  // namespace lockstep
