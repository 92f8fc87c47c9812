#include "distributed/gradients/reducer_gradients.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/ranges.h>

#include "distributed/backends/process_groups.h"
#include "distributed/fence.h"
#include "distributed/gradients/compression_hook.h"
#include "distributed/gradients/tree_backend.h"

namespace lockstep::distributed {
namespace {

// A second process group over the world's device backend, wrapped in a WatchedBackend.
c10::intrusive_ptr<c10d::ProcessGroup> gradient_group(
    World& world, const c10::intrusive_ptr<WatchedBackend>& backend) {
  const auto& device = world.groups().device;
  auto group = c10::make_intrusive<c10d::ProcessGroup>(world.groups().store, world.rank(),
                                                       world.world_size());
  group->setBackend(world.device().type(), device->getBackendType(), backend);
  group->setDefaultBackend(device->getBackendType());
  group->setGroupName("gradients");
  return group;
}

// What adds the gradients. With virtual shards, in the order of a tree; two ranks have only one order.
c10::intrusive_ptr<c10d::Backend> adding_backend(World& world, const DataParallelConfig& config) {
  auto backend = world.groups().device->getBackend(world.device().type());
  const bool needs_tree = config.virtual_shards && world.world_size() > 2 &&
                          world.device().is_cpu() && !world.groups().shared;
  if (needs_tree) return c10::make_intrusive<TreeBackend>(backend);
  return backend;
}

}  // namespace

std::unique_ptr<ReducerGradients> ReducerGradients::create(World& world, NamedTensors parameters,
                                                           const DataParallelConfig& config) {
  std::unique_ptr<ReducerGradients> made(
      new ReducerGradients(world, std::move(parameters), config));
  made->make_reducer({});
  return made;
}

ReducerGradients::ReducerGradients(World& world, NamedTensors parameters,
                                   const DataParallelConfig& config)
    : GradientSynchronizer(std::move(parameters)),
      world_(world),
      config_(config),
      backend_(
          c10::make_intrusive<WatchedBackend>(adding_backend(world, config), world.progress())),
      group_(gradient_group(world, backend_)) {}

void ReducerGradients::make_reducer(const std::vector<int64_t>& order) {
  logger_.reset();
  reducer_.reset();  // before the next one installs its hooks on the parameters
  reducer_ = std::make_shared<OrderedReducer>(group_, parameters(), config_, order);
  logger_ = std::make_shared<c10d::Logger>(reducer_);
  reducer_->set_logger(logger_);
  if (config_.static_graph) reducer_->set_static_graph();
  if (config_.gradient_compression != GradientCompression::None)
    reducer_->register_comm_hook(
        std::make_unique<CompressionHook>(group_, config_.gradient_compression));
  publish_buckets();
}

// One line per bucket, in the order in which they are reduced.
void ReducerGradients::publish_buckets() {
  std::string lines;
  for (const auto& bucket : logger_->get_per_bucket_variable_indices()) {
    std::vector<std::string> members;
    for (const auto index : bucket) members.push_back(parameters().at(index).first);
    lines += fmt::format("{}\n", fmt::join(members, ", "));
  }
  world_.progress().set_bucket_names(lines);
}

void ReducerGradients::restore_order(const std::vector<int64_t>& order) {
  if (!OrderedReducer::depends_on_order(config_)) return;
  // In an uninterrupted run gradients are bucket views by now, which the Reducer divides by the
  // number of ranks; gradients that it copies into a bucket are multiplied by the inverse instead.
  if (config_.gradient_as_bucket_view)
    for (const auto& [name, parameter] : parameters())
      parameter.mutable_grad() = at::zeros_like(parameter);
  make_reducer(order);
}

void ReducerGradients::before_forward() {
  fenced(world_, "before forward", [&] {
    reducer_->prepare_for_forward();
    if (reducer_->rebuild_in_order()) publish_buckets();
  });
}

void ReducerGradients::backward(const at::Tensor& loss, bool synchronize) {
  fenced(world_, "gradient all_reduce", [&] {
    world_.progress().begin_buckets();
    if (synchronize) {
      std::vector<at::Tensor> outputs;
      if (config_.find_unused_parameters) outputs.push_back(loss);
      reducer_->prepare_for_backward(outputs);
    }
    loss.backward();
    if (synchronize) reducer_->after_backward();
  });
  if (synchronize) exposed_wait_ = std::chrono::steady_clock::now() - backend_->last_start();
}

// Runs an autograd pass, because the Reducer relies on autograd hooks.
void ReducerGradients::add_gradients(const std::shared_ptr<GivenGradients>& gradients,
                                     bool synchronize) {
  backward(make_autograd_root(parameters(), gradients), synchronize);
}

void ReducerGradients::zero_gradients() {
  if (!config_.gradient_as_bucket_view) return GradientSynchronizer::zero_gradients();
  // Zeroed in place: they must remain bucket views. All views of a bucket share a storage, which is
  // filled once.
  const at::NoGradGuard no_grad;
  const void* filled = nullptr;
  for (const auto& bucket : logger_->get_per_bucket_variable_indices())
    for (const auto index : bucket) {
      const auto& gradient = parameters()[index].second.grad();
      if (!gradient.defined() || gradient.storage().data() == filled) continue;
      filled = gradient.storage().data();
      at::empty({0}, gradient.options()).set_(gradient.storage()).zero_();
    }
}

}  // namespace lockstep::distributed
