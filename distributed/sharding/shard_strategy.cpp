#include "distributed/sharding/shard_strategy.h"

#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "distributed/backends/process_groups.h"
#include "distributed/fence.h"
#include "distributed/sharding/sharded_weights.h"
#include "lockstep/error.h"

namespace lockstep::distributed {
namespace {

// Units of about one bucket, in the order of the parameters.
std::vector<size_t> units_by_size(const NamedTensors& parameters, size_t bytes_of_unit) {
  std::vector<size_t> units;
  size_t unit = 0, bytes = 0;
  for (const auto& [name, parameter] : parameters) {
    if (bytes > 0 && bytes + parameter.nbytes() > bytes_of_unit) {
      ++unit;
      bytes = 0;
    }
    bytes += parameter.nbytes();
    units.push_back(unit);
  }
  return units;
}

NamedTensors frozen_parameters(const torch::nn::Module& module) {
  NamedTensors frozen;
  for (const auto& item : module.named_parameters())
    if (!item.value().requires_grad()) frozen.emplace_back(item.key(), item.value());
  return frozen;
}

void verify_floating_point(const NamedTensors& parameters, ShardStrategy strategy) {
  for (const auto& [key, parameter] : parameters)
    if (!parameter.is_floating_point())
      throw config_error(
          fmt::format("distributed.shard: {}: parameter '{}' is not a floating-point tensor; use "
                      "distributed.shard: optimizer",
                      name_of(strategy), key));
}

// Copies the weights of rank 0's host to the other hosts; each rank sends its chunks.
void copy_to_hosts(World& world, FlatParameters& parameters) {
  const auto& peers = world.groups().peers;
  if (!peers) return;
  for (auto& flat : parameters.flats()) {
    std::vector<at::Tensor> chunk = {flat.own};
    fenced(world, "weights of the first host", [&] { peers->broadcast(chunk, {})->wait(); });
  }
  parameters.publish("weights of the first host");
}

void shard_per_host(World& world, torch::nn::Module& module, bool is_full, bool has_values,
                    Sharding& sharding) {
  const auto copies = is_full ? Copies::PerHost : Copies::PerRank;
  const auto flat = [&](const NamedTensors& parameters) {
    auto made = std::make_unique<FlatParameters>(FlatParameters::create(
        world.host(), parameters, {.copies = copies, .units = {}, .has_values = has_values}));
    if (is_full && has_values) copy_to_hosts(world, *made);
    return made;
  };
  if (is_full) sharding.frozen = flat(frozen_parameters(module));
  sharding.trained = flat(trainable_parameters(module));
  sharding.has_shared_gradients = true;
}

// The unit of each parameter; 0: it is in none. `problem`: set if one is in two.
std::map<const c10::TensorImpl*, size_t> units_of(const torch::nn::Module& module,
                                                  const std::vector<ShardUnit>& units,
                                                  std::string& problem) {
  std::map<const c10::TensorImpl*, size_t> unit_of;
  const auto add = [&](const torch::nn::Module& part, const std::string& name, size_t unit) {
    for (const auto& item : part.named_parameters(/*recurse=*/false)) {
      const auto [found, is_new] = unit_of.emplace(item.value().unsafeGetTensorImpl(), unit);
      if (!is_new && found->second != unit)
        problem = fmt::format("parameter '{}' of {} is also used outside of it", item.key(), name);
    }
  };
  std::set<const torch::nn::Module*> inside;
  for (size_t i = 0; i < units.size(); ++i)
    units[i].module->apply([&](torch::nn::Module& part) {
      inside.insert(&part);
      add(part, units[i].name, i + 1);
    });
  for (const auto& part : module.modules())
    if (!inside.contains(part.get())) add(*part, "a unit", 0);
  return unit_of;
}

void shard_weights(World& world, torch::nn::Module& module, const ShardOptions& options,
                   Sharding& sharding) {
  const auto& units = options.units;
  if (const auto reason = reason_against_units(module, units))
    throw config_error(
        fmt::format("distributed.shard: full: {}; use distributed.shard: gradients", *reason));
  std::string problem;
  const auto unit_of = units_of(module, units, problem);
  const auto flat = [&](const NamedTensors& parameters, bool is_trained) {
    FlatLayout layout{.copies = Copies::Sharded,
                      .units = {},
                      .has_gradients = is_trained,
                      .has_values = options.has_values};
    for (const auto& [name, parameter] : parameters)
      layout.units.push_back(unit_of.at(parameter.unsafeGetTensorImpl()));
    return std::make_unique<FlatParameters>(
        FlatParameters::create(world, parameters, std::move(layout)));
  };
  sharding.frozen = flat(frozen_parameters(module), false);
  sharding.trained = flat(trainable_parameters(module), true);
  std::vector<std::string> names = {"the weights outside of units"};
  for (const auto& unit : units) names.push_back(unit.name);
  sharding.weights = std::make_unique<ShardedWeights>(
      world, names, std::vector<FlatParameters*>{sharding.trained.get(), sharding.frozen.get()});
}

}  // namespace

Sharding::Sharding() = default;
Sharding::~Sharding() = default;

std::vector<std::pair<std::string, DividedTensor>> Sharding::divided_weights() const {
  std::vector<std::pair<std::string, DividedTensor>> divided;
  if (!weights) return divided;
  for (const auto* flat : {trained.get(), frozen.get()})
    for (size_t i = 0; i < flat->parameters().size(); ++i) {
      const auto slice = flat->find_slice(i);
      divided.emplace_back(
          flat->parameters()[i].first,
          flat->divide(i, slice < 0 ? at::Tensor() : flat->slice(static_cast<size_t>(slice))));
    }
  return divided;
}

bool Sharding::set_weight(const std::string& name, const at::Tensor& whole) const {
  for (auto* const flat : {trained.get(), frozen.get()}) {
    const auto& parameters = flat->parameters();
    const auto found = std::ranges::find(parameters, name, &NamedTensors::value_type::first);
    if (found == parameters.end()) continue;
    flat->set_values(static_cast<size_t>(found - parameters.begin()), whole);
    return true;
  }
  return false;
}

void Sharding::publish_weights(World& world) const {
  for (auto* const flat : {trained.get(), frozen.get()}) {
    flat->publish("initial weights");
    if (flat->copies() == Copies::PerHost) copy_to_hosts(world, *flat);
  }
}

std::optional<std::string> reducer_option(const DataParallelConfig& config) {
  if (config.find_unused_parameters) return "distributed.find_unused_parameters";
  if (config.static_graph) return "distributed.static_graph";
  if (config.gradient_as_bucket_view) return "distributed.gradient_as_bucket_view";
  if (config.gradient_compression != GradientCompression::None)
    return "distributed.gradient_compression";
  return std::nullopt;
}

std::optional<std::string> reason_against_units(const torch::nn::Module& module,
                                                const std::vector<ShardUnit>& units) {
  if (units.empty())
    return "the model has no blocks (lockstep::Block) whose weights can be gathered one at a time";
  std::string problem;
  units_of(module, units, problem);
  return problem.empty() ? std::nullopt : std::optional(problem);
}

std::vector<UnitBytes> bytes_of_units(const torch::nn::Module& module,
                                      const std::vector<ShardUnit>& units) {
  std::string problem;
  const auto unit_of = units_of(module, units, problem);
  std::vector<UnitBytes> bytes(units.size() + 1);
  for (const auto& parameter : module.parameters()) {
    auto& unit = bytes[unit_of.at(parameter.unsafeGetTensorImpl())];
    unit.weights += parameter.nbytes();
    if (parameter.requires_grad()) unit.trained += parameter.nbytes();
  }
  return bytes;
}

std::vector<UnitBytes> bytes_of_gradient_units(const NamedTensors& trained, size_t bytes) {
  const auto units = units_by_size(trained, bytes);
  std::vector<UnitBytes> sums(units.empty() ? 0 : units.back() + 1);
  for (size_t i = 0; i < units.size(); ++i) {
    sums[units[i]].weights += trained[i].second.nbytes();
    sums[units[i]].trained += trained[i].second.nbytes();
  }
  return sums;
}

std::unique_ptr<Sharding> shard_model(World& world, torch::nn::Module& module,
                                      const DataParallelConfig& config,
                                      const ShardOptions& options) {
  const auto strategy = config.shard;
  check(strategy != ShardStrategy::Auto, "distributed.shard: auto is not resolved");
  if (strategy == ShardStrategy::None) return nullptr;
  if (shards_gradients(strategy)) {
    verify_floating_point(trainable_parameters(module), strategy);
    if (const auto option = reducer_option(config))
      throw config_error(
          fmt::format("distributed.shard: {}: {} is not supported with it; use "
                      "distributed.shard: optimizer",
                      name_of(strategy), *option));
  }
  auto sharding = std::make_unique<Sharding>();
  const auto parameters = trainable_parameters(module);
  if (strategy == ShardStrategy::Optimizer)
    sharding->trained =
        std::make_unique<FlatParameters>(FlatParameters::create(world, parameters, {}));
  else if (world.device().is_cpu() && world.host().groups().shared)
    shard_per_host(world, module, strategy == ShardStrategy::Full, options.has_values, *sharding);
  else if (strategy == ShardStrategy::Full)
    shard_weights(world, module, options, *sharding);
  else
    sharding->trained = std::make_unique<FlatParameters>(FlatParameters::create(
        world, parameters,
        {.units = units_by_size(parameters, options.gradient_bytes), .has_gradients = true}));
  ::malloc_trim(0);  // this rank's copy of the weights
  return sharding;
}

}  // namespace lockstep::distributed
