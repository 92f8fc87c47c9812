#include "lockstep/data_parallel.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <torch/csrc/distributed/c10d/comm.hpp>

#include <algorithm>
#include <unordered_map>

#include "distributed/backends/process_groups.h"
#include "distributed/fence.h"
#include "distributed/gradients/gradient_buckets.h"
#include "distributed/gradients/gradient_synchronizer.h"
#include "distributed/gradients/part_sums.h"
#include "distributed/objects.h"
#include "distributed/sharding/shard_strategy.h"
#include "distributed/sharding/sharded_weights.h"
#include "lockstep/error.h"

namespace lockstep {
namespace {

constexpr size_t kBroadcastBucketBytes = size_t{250} << 20;

// Names, types and shapes of the parameters, for comparison and error messages.
nlohmann::json describe_parameters(const torch::nn::Module& module) {
  auto list = nlohmann::json::array();
  for (const auto& item : module.named_parameters())
    list.push_back(fmt::format("{} {} {}", item.key(), c10::toString(item.value().scalar_type()),
                               nlohmann::json(item.value().sizes().vec()).dump()));
  return list;
}

void verify_same_model(World& world, const torch::nn::Module& module) {
  const auto all =
      distributed::all_gather_object(world, describe_parameters(module), "parameter shapes");
  for (size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] == all[0]) continue;
    const auto common = std::min(all[rank].size(), all[0].size());
    size_t i = 0;
    while (i < common && all[rank][i] == all[0][i]) ++i;
    const auto text = [&](size_t r) {
      return i < all[r].size() ? all[r][i].get<std::string>() : "nothing";
    };
    throw config_error(fmt::format(
        "the model differs between ranks: parameter {} is [{}] on rank 0 and [{}] on rank {}", i,
        text(0), text(rank), rank));
  }
}

void broadcast_from_main(World& world, const std::vector<at::Tensor>& tensors) {
  if (!tensors.empty())
    c10d::broadcast_coalesced(world.groups().device, tensors, kBroadcastBucketBytes, 0);
}

}  // namespace

DataParallel::DataParallel(World& world, const DataParallelConfig& config)
    : world_(world),
      virtual_shards_(config.virtual_shards.value_or(0)),
      part_sums_(std::make_unique<distributed::PartSums>()) {}

DataParallel::~DataParallel() = default;

std::unique_ptr<DataParallel> DataParallel::create(World& world, torch::nn::Module& module,
                                                   const DataParallelConfig& config,
                                                   const std::vector<ShardUnit>& units,
                                                   bool has_values) {
  auto parameters = trainable_parameters(module);
  if (parameters.empty()) throw config_error("the model has no trainable parameters");
  std::unique_ptr<DataParallel> parallel(new DataParallel(world, config));
  if (world.is_distributed()) {
    verify_same_model(world, module);
    distributed::fenced(world, "initial broadcast", [&] {
      parallel->broadcast_model(module, config);
      parallel->sharding_ =
          distributed::shard_model(world, module, config,
                                   {.units = units,
                                    .gradient_bytes = distributed::bucket_caps(config).bytes,
                                    .has_values = has_values});
    });
  }
  parallel->synchronizer_ = distributed::make_gradient_synchronizer(
      world, std::move(parameters), config, parallel->sharding_.get());
  return parallel;
}

// Shared and sharded weights become rank 0's when they are moved.
void DataParallel::broadcast_model(torch::nn::Module& module, const DataParallelConfig& config) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> states;
  if (config.shard != ShardStrategy::Full)
    for (const auto& tensor : module.parameters()) states.push_back(tensor.detach());
  for (const auto& tensor : module.buffers()) {
    states.push_back(tensor.detach());
    if (config.broadcast_buffers) buffers_.push_back(states.back());
  }
  broadcast_from_main(world_, states);
}

std::vector<std::string> DataParallel::gradient_order() const {
  std::vector<std::string> names;
  for (const auto index : synchronizer_->order())
    names.push_back(synchronizer_->parameters()[static_cast<size_t>(index)].first);
  return names;
}

void DataParallel::restore_gradient_order(const std::vector<std::string>& names) {
  const auto& parameters = synchronizer_->parameters();
  if (!std::ranges::is_permutation(names, parameters, {}, {}, &NamedTensors::value_type::first))
    return;
  std::unordered_map<std::string, int64_t> numbers;
  for (const auto& [name, parameter] : parameters) numbers.emplace(name, numbers.size());
  std::vector<int64_t> order;
  for (const auto& name : names) order.push_back(numbers.at(name));
  synchronizer_->restore_order(order);
}

void DataParallel::before_forward(bool synchronize) {
  if (synchronize) synchronizer_->before_forward();
  gather_weights();
  // As in Python: buffers are broadcast if the previous step was synchronized.
  if (last_was_synchronized_) broadcast_buffers();
  last_was_synchronized_ = synchronize;
}

void DataParallel::broadcast_buffers() {
  if (buffers_.empty()) return;
  const at::NoGradGuard no_grad;
  distributed::fenced(world_, "buffer broadcast", [&] { broadcast_from_main(world_, buffers_); });
}

bool DataParallel::gathers_weights() const { return sharding_ && sharding_->weights; }

void DataParallel::gather_weights() {
  if (gathers_weights())
    distributed::fenced(world_, "weights", [&] { sharding_->weights->begin_pass(); });
}

void DataParallel::release_weights() {
  if (gathers_weights()) sharding_->weights->end_pass();
}

void DataParallel::before_unit(size_t unit) {
  if (gathers_weights()) sharding_->weights->before_unit(unit + 1);
}

void DataParallel::after_unit(size_t unit, const at::Tensor& output) {
  if (gathers_weights()) sharding_->weights->after_unit(unit + 1, output);
}

void DataParallel::hold_units(const std::vector<size_t>& units, const std::vector<size_t>& next) {
  if (!gathers_weights()) return;
  const auto numbers = [](std::vector<size_t> list) {
    for (auto& unit : list) ++unit;  // unit 0: outside of units
    return list;
  };
  sharding_->weights->hold_units(numbers(units), numbers(next));
}

void DataParallel::backward(const at::Tensor& loss, bool synchronize) {
  synchronizer_->backward(loss, synchronize);
  release_weights();
}

void DataParallel::add_gradients(
    std::vector<at::Tensor> gradients, bool synchronize,
    std::vector<std::function<std::vector<at::Tensor>()>> remaining_segments) {
  synchronizer_->add_gradients(
      std::make_shared<distributed::GivenGradients>(
          synchronizer_->parameters(), std::move(gradients), std::move(remaining_segments)),
      synchronize);
  release_weights();
}

void DataParallel::end_part(bool is_last) {
  const at::NoGradGuard no_grad;
  check(virtual_shards_ > 0, "end_part() needs virtual shards");
  const auto& parameters = synchronizer_->parameters();
  std::vector<at::Tensor> gradients;
  for (const auto& [name, parameter] : parameters) {
    if (!parameter.grad().defined())
      throw config_error(fmt::format(
          "parameter '{}' got no gradient in this step; with distributed.virtual_shards, models "
          "must use every parameter in every step",
          name));
    gradients.push_back(parameter.grad());
  }
  const auto scale =
      static_cast<double>(synchronizer_->divisor()) / static_cast<double>(virtual_shards_);
  if (world_.is_distributed())
    gradients = at::_foreach_mul(gradients, scale);  // the synchronizer may own their memory
  else
    at::_foreach_mul_(gradients, scale);
  part_sums_->add(std::move(gradients));
  synchronizer_->zero_gradients();
  if (is_last) add_gradients(part_sums_->take(), /*synchronize=*/true);
}

std::chrono::duration<double> DataParallel::exposed_wait() const {
  return synchronizer_->exposed_wait();
}

void DataParallel::zero_gradients() { synchronizer_->zero_gradients(); }

}  // namespace lockstep
