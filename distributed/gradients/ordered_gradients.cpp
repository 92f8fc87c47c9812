#include "distributed/gradients/ordered_gradients.h"

#include <ATen/ops/from_blob.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>

#include "distributed/backends/process_groups.h"
#include "distributed/collectives.h"
#include "lockstep/error.h"

namespace lockstep::distributed {
namespace {

class GradientReadyHook final : public torch::autograd::PostAccumulateGradHook {
 public:
  explicit GradientReadyHook(std::function<void()> callback) : callback_(std::move(callback)) {}
  void operator()(const torch::autograd::Variable&) override { callback_(); }

 private:
  std::function<void()> callback_;
};

}  // namespace

// With several virtual shards per rank, the caller has divided the gradients.
OrderedGradients::OrderedGradients(World& world, NamedTensors parameters,
                                   const DataParallelConfig& config)
    : GradientSynchronizer(std::move(parameters)),
      world_(world),
      caps_(bucket_caps(config)),
      divisor_(config.virtual_shards.value_or(0) > world.world_size() ? 1 : world.world_size()),
      sum_kind_(config.virtual_shards ? shm::SumKind::Tree : shm::SumKind::Ring) {
  set_buckets(unordered_buckets(this->parameters()));
}

OrderedGradients::~OrderedGradients() { remove_hooks(); }

ShmBackend& OrderedGradients::backend() const { return *world_.host().groups().shared; }

void OrderedGradients::set_buckets(std::vector<GradientBucket> buckets) {
  buckets_ = std::move(buckets);
  places_.resize(parameters().size());
  for (const auto& bucket : buckets_) {
    size_t size = 0;
    for (const auto index : bucket) {
      places_[index].offset = size;
      size += static_cast<size_t>(parameter(index).numel());
    }
    for (const auto index : bucket) places_[index].bucket_size = size;
  }
}

void OrderedGradients::backward(const at::Tensor& loss, bool synchronize) {
  begin_pass(synchronize);
  if (synchronize) record_ready_order();
  loss.backward();
  if (synchronize) finish_pass();
}

void OrderedGradients::keep_hooks() {
  keeps_hooks_ = true;
  register_hooks();
}

void OrderedGradients::record_ready_order() {
  if (!order_.empty() || is_recording_order_) return;
  is_recording_order_ = true;
  register_hooks();
}

void OrderedGradients::set_reverse_ready_order() {
  if (!order_.empty()) return;
  stop_recording_order();
  ready_order_.clear();
  for (auto i = static_cast<int64_t>(parameters().size()); i > 0; --i)
    ready_order_.push_back(i - 1);
}

void OrderedGradients::stop_recording_order() {
  is_recording_order_ = false;
  if (!keeps_hooks_) remove_hooks();
}

void OrderedGradients::register_hooks() {
  if (has_hooks_) return;
  has_hooks_ = true;
  for (size_t i = 0; i < parameters().size(); ++i)
    torch::autograd::impl::set_post_acc_grad_hooks(
        parameter(i), std::make_unique<GradientReadyHook>([this, i] {
          if (is_recording_order_) ready_order_.push_back(static_cast<int64_t>(i));
          on_gradient_ready(i);
        }));
}

void OrderedGradients::remove_hooks() {
  if (!has_hooks_) return;
  has_hooks_ = false;
  for (const auto& [name, parameter] : parameters())
    torch::autograd::impl::set_post_acc_grad_hooks(parameter, nullptr);
}

void OrderedGradients::restore_order(const std::vector<int64_t>& order) {
  order_ = order;
  set_buckets(buckets_in_order(parameters(), order_, caps_));
  layout_buckets();
}

void OrderedGradients::update_buckets() {
  if (!order_.empty()) return;
  // A gradient may be left over from an earlier backward pass.
  for (size_t i = 0; i < parameters().size(); ++i)
    if (std::ranges::find(ready_order_, static_cast<int64_t>(i)) == ready_order_.end())
      throw_missing_gradient(i);
  check(ready_order_.size() == parameters().size(), "a gradient became ready more than once");
  stop_recording_order();
  auto order = at::from_blob(ready_order_.data(), {std::ssize(ready_order_)}, at::kLong);
  broadcast(world_, order, 0, "order of gradients");
  restore_order(ready_order_);
}

void OrderedGradients::throw_missing_gradient(size_t index) const {
  throw config_error(fmt::format(
      "parameter '{}' got no gradient in this step; models that do not use every parameter in "
      "every step need distributed.find_unused_parameters=true",
      parameters()[index].first));
}

}  // namespace lockstep::distributed
