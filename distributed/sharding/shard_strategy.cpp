#include "distributed/sharding/shard_strategy.h"

#include <fmt/format.h>
#include <malloc.h>

#include <utility>

#include "distributed/backends/process_groups.h"
#include "lockstep/error.h"

namespace lockstep::distributed {

std::optional<std::string> reducer_option(const DataParallelConfig& config) {
  if (config.find_unused_parameters) return "distributed.find_unused_parameters";
  if (config.static_graph) return "distributed.static_graph";
  if (config.gradient_as_bucket_view) return "distributed.gradient_as_bucket_view";
  if (config.gradient_compression != GradientCompression::None)
    return "distributed.gradient_compression";
  return std::nullopt;
}

std::optional<std::string> reason_against_per_host(const SharingRanks& ranks,
                                                   const DataParallelConfig& config) {
  if (!ranks.on_cpu) return "it is available on CPUs only";
  if (!ranks.on_one_host) return "the ranks are on several hosts";
  if (ranks.backend != BackendChoice::Auto && ranks.backend != BackendChoice::Shm)
    return fmt::format("distributed.backend: {} does not share memory",
                       name_of(ranks.backend));
  if (const auto option = reducer_option(config))
    return fmt::format("{} is not supported with it", *option);
  return std::nullopt;
}

std::unique_ptr<FlatParameters> shard_parameters(World& world, torch::nn::Module& module,
                                                 const DataParallelConfig& config) {
  const auto strategy = config.shard;
  check(strategy != ShardStrategy::Auto, "distributed.shard: auto is not resolved");
  if (strategy == ShardStrategy::None) return nullptr;
  const auto* const name = name_of(strategy);
  if (shards_gradients(strategy)) {
    auto reason = reason_against_per_host(
        {.on_cpu = world.device().is_cpu(), .backend = world.backend()}, config);
    if (!reason && !world.groups().shared) reason = "the ranks do not share memory";
    if (reason)
      throw config_error(fmt::format(
          "distributed.shard: {}: {}; use distributed.shard: optimizer", name, *reason));
  }
  const auto parameters = trainable_parameters(module);
  for (const auto& [key, parameter] : parameters)
    if (shards_gradients(strategy) && !parameter.is_floating_point())
      throw config_error(fmt::format(
          "distributed.shard: {}: parameter '{}' is not a floating-point tensor; use "
          "distributed.shard: optimizer",
          name, key));
  if (strategy != ShardStrategy::Full)
    return std::make_unique<FlatParameters>(
        FlatParameters::create(world, parameters, Copies::PerRank));
  NamedTensors frozen;
  for (const auto& item : module.named_parameters())
    if (!item.value().requires_grad()) frozen.emplace_back(item.key(), item.value());
  FlatParameters::create(world, frozen, Copies::PerHost);  // the parameters own the memory
  auto flat = std::make_unique<FlatParameters>(
      FlatParameters::create(world, parameters, Copies::PerHost));
  ::malloc_trim(0);  // this rank's copy of the weights
  return flat;
}

}  // namespace lockstep::distributed
