#include "distributed/shared_gradients.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/csrc/distributed/c10d/reducer.hpp>

#include <algorithm>
#include <limits>
#include <utility>

#include "core/error.h"

namespace lockstep {
namespace {

class NoteReady final : public torch::autograd::PostAccumulateGradHook {
 public:
  NoteReady(std::vector<size_t>& order, size_t index) : order_(order), index_(index) {}
  void operator()(const torch::autograd::Variable&) override { order_.push_back(index_); }

 private:
  std::vector<size_t>& order_;
  size_t index_;
};

}  // namespace

SharedGradients::SharedGradients(ShmBackend& backend, std::vector<at::Tensor> parameters,
                                 std::vector<std::string> names, const GradientBuckets& buckets)
    : backend_(backend),
      parameters_(std::move(parameters)),
      names_(std::move(names)),
      limits_(buckets),
      buckets_(std::get<0>(c10d::compute_bucket_assignment_by_size(
          parameters_, {std::numeric_limits<int64_t>::max()},
          std::vector<bool>(parameters_.size(), false)))) {
  std::reverse(buckets_.begin(), buckets_.end());
}

SharedGradients::~SharedGradients() { forget_order(); }

void SharedGradients::begin() {
  if (is_arranged_ || is_watching_) return;
  for (size_t i = 0; i < parameters_.size(); ++i)
    torch::autograd::impl::set_post_acc_grad_hooks(parameters_[i],
                                                   std::make_unique<NoteReady>(ready_order_, i));
  is_watching_ = true;
}

void SharedGradients::begin_with_all_ready() {
  if (is_arranged_) return;
  forget_order();
  for (size_t i = parameters_.size(); i > 0; --i) ready_order_.push_back(i - 1);
}

void SharedGradients::forget_order() {
  ready_order_.clear();
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

void SharedGradients::average() {
  const at::NoGradGuard no_grad;
  for (const auto& bucket : buckets_) {
    gradients_.clear();
    for (const auto index : bucket) gradients_.push_back(dense_gradient(index));
    backend_.average(gradients_);
  }
  gradients_.clear();
  if (!is_arranged_) arrange_by_order();
}

// As Reducer::rebuild_buckets() and sync_bucket_indices().
void SharedGradients::arrange_by_order() {
  for (size_t i = 0; i < parameters_.size(); ++i)  // it may have one of an earlier backward pass
    if (std::find(ready_order_.begin(), ready_order_.end(), i) == ready_order_.end()) refuse(i);
  check(ready_order_.size() == parameters_.size(), "every gradient becomes ready once");
  const auto count = static_cast<int64_t>(parameters_.size());
  auto order = at::empty({count}, at::kLong);
  for (int64_t i = 0; i < count; ++i)
    order.mutable_data_ptr<int64_t>()[i] =
        static_cast<int64_t>(ready_order_[static_cast<size_t>(i)]);
  forget_order();
  std::vector<at::Tensor> sent = {order};
  backend_.broadcast(sent, {});
  const std::vector<int64_t> indices(order.const_data_ptr<int64_t>(),
                                     order.const_data_ptr<int64_t>() + count);
  std::vector<at::Tensor> ready;
  for (const auto index : indices) ready.push_back(parameters_[static_cast<size_t>(index)]);
  buckets_ = std::get<0>(c10d::compute_bucket_assignment_by_size(
      ready, {limits_.first_cap_bytes, limits_.cap_bytes},
      std::vector<bool>(parameters_.size(), false), indices));
  is_arranged_ = true;
}

}  // namespace lockstep
