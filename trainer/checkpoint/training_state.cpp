#include "trainer/checkpoint/training_state.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <functional>
#include <map>
#include <set>
#include <utility>

#include "core/printable.h"
#include "distributed/collectives.h"
#include "distributed/objects.h"
#include "distributed/sharding/shard_strategy.h"
#include "lockstep/error.h"
#include "tracking/runs/on_ranks.h"
#include "trainer/checkpoint/checkpoint_note.h"

namespace lockstep::trainer {
namespace {

// The random generators of a rank, of the CPU and of its GPU if it uses one, each with the suffix
// after "rank.N" in the name of its state.
std::vector<std::pair<std::string, at::Generator>> generators_of(const World& world) {
  std::vector<std::pair<std::string, at::Generator>> generators;
  generators.emplace_back("", at::detail::getDefaultCPUGenerator());
  if (!world.device().is_cpu())
    generators.emplace_back(".device", at::globalContext().defaultGenerator(world.device()));
  return generators;
}

std::string rng_name(int rank, const std::string& ending) {
  return fmt::format("rank.{}{}", rank, ending);
}

using Visit = std::function<void(const std::string& name, const at::Tensor& tensor)>;

// Calls `visit` on every rank for each tensor of rank 0's list. On the other ranks, the tensor is on
// the meta device. Tensors are freed one by one.
void visit_list_of_main(World& world, NamedTensors tensors, const std::string& name,
                        const Visit& visit) {
  auto description = nlohmann::json::array();
  for (const auto& [key, tensor] : tensors)
    description.push_back({key, tensor.sizes().vec(), static_cast<int>(tensor.scalar_type())});
  description = distributed::broadcast_object(world, description, 0, name);
  tensors.resize(description.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    auto& [key, tensor] = tensors[i];
    key = description[i][0];
    const auto type = static_cast<at::ScalarType>(description[i][2].get<int>());
    if (!tensor.defined())
      tensor = at::empty(description[i][1].get<std::vector<int64_t>>(),
                         at::device(at::kMeta).dtype(type));
    visit(key, tensor);
    tensor.reset();
  }
}

// Collective: returns rank 0's tensor. `tensor`: of visit_list_of_main().
at::Tensor broadcast_whole(World& world, const at::Tensor& tensor, const std::string& name) {
  auto whole = tensor.is_meta() ? at::empty(tensor.sizes(), tensor.scalar_type()) : tensor;
  distributed::broadcast(world, whole, 0, name);
  return whole;
}

// By name: those of the tensors that are divided between ranks.
using Divided = std::map<std::string, distributed::DividedTensor>;

Divided divided_weights(const DataParallel& parallel) {
  if (!parallel.sharding()) return {};
  const auto weights = parallel.sharding()->divided_weights();
  return {weights.begin(), weights.end()};
}

Divided divided_average(const WeightAverage& average) {
  Divided divided;
  for (const auto& state : average.divided_state()) divided.emplace(state.name, state.tensor);
  return divided;
}

using Load = std::function<void(const std::string& name, const at::Tensor& tensor,
                                const at::Tensor& target)>;

// Collective: calls `load` for each tensor of rank 0's `loaded`. Throws Config if they are not those of
// `tensors`.
void load_each(World& world, const NamedTensors& tensors, NamedTensors loaded,
               const std::string& list, const Load& load) {
  std::set<std::string> received;
  visit_list_of_main(world, std::move(loaded), list, [&](const auto& name, const auto& tensor) {
    received.insert(name);
    const auto* target = find_tensor(tensors, name);
    if (!target) return;
    if (target->sizes() != tensor.sizes())
      throw config_error(fmt::format("'{}' is {} in the checkpoint and {} in the model", name,
                                     nlohmann::json(tensor.sizes().vec()).dump(),
                                     nlohmann::json(target->sizes().vec()).dump()));
    load(name, tensor, *target);
  });
  for (const auto& [name, tensor] : tensors)
    if (!received.contains(name))
      throw config_error(
          fmt::format("the checkpoint has no '{}': was it saved with another model?", name));
  if (received.size() != tensors.size())
    throw config_error(
        fmt::format("the checkpoint has {} tensors, the model {}: was it saved with another model?",
                    received.size(), tensors.size()));
}

// Collective: copies rank 0's `loaded` into `tensors`, or this rank's part of them.
void load_tensors(World& world, const NamedTensors& tensors, NamedTensors loaded,
                  const std::string& list, const Divided& divided = {}) {
  load_each(world, tensors, std::move(loaded), list,
            [&](const auto& name, const auto& tensor, const auto& target) {
              const auto whole = broadcast_whole(world, tensor, list + " " + name);
              const auto found = divided.find(name);
              if (found != divided.end()) return load_part(world, found->second, whole);
              at::Tensor(target).copy_(whole);
            });
}

// Collective: copies rank 0's `loaded` to the parameters and buffers. Each rank gets its slices of
// sharded weights.
void load_model(World& world, const TrainingState& state, NamedTensors loaded) {
  const auto* const sharding = state.parallel.sharding();
  const bool is_full = sharding && sharding->is_full();
  load_each(world, tensors_of(state.model), std::move(loaded), "model",
            [&](const auto& name, const auto& tensor, const auto& target) {
              if (is_full && sharding->set_weight(name, tensor)) return;
              at::Tensor(target).copy_(broadcast_whole(world, tensor, "model " + name));
            });
  if (is_full) sharding->publish_weights(world);
}

using Keep = std::function<at::Tensor(const std::string& name, const at::Tensor& tensor)>;

// Collective. Applies `keep` to rank 0's tensors; returns the defined results.
NamedTensors broadcast_tensors(World& world, NamedTensors tensors, const std::string& list,
                               const Keep& keep) {
  NamedTensors kept;
  visit_list_of_main(world, std::move(tensors), list, [&](const auto& name, const auto& tensor) {
    const auto whole = broadcast_whole(world, tensor, list + " " + name);
    if (auto part = keep(name, whole); part.defined()) kept.emplace_back(name, std::move(part));
  });
  return kept;
}

void restore_rng(const World& world, const Checkpoint& checkpoint) {
  for (auto& [ending, generator] : generators_of(world))
    for (const auto& [name, state] : checkpoint.rng)
      if (name == rng_name(world.rank(), ending)) generator.set_state(state);
}

// Collective: loads rank 0's `checkpoint`, of state.head, except for the random states.
void load_state(World& world, const TrainingState& state, Checkpoint& checkpoint) {
  load_model(world, state, std::move(checkpoint.model));
  std::vector<std::string> saved;
  const auto keep = [&](const auto& name, const auto& tensor) {
    saved.push_back(name);
    return state.optimizer.keep(name, tensor);
  };
  const auto kept = broadcast_tensors(world, std::move(checkpoint.optimizer), "optimizer", keep);
  if (!kept.empty() || state.head.position.step > 0) state.optimizer.load_state(kept, saved);
  state.parallel.restore_gradient_order(state.head.gradient_order);
  if (!state.average || state.head.ema_updates == 0) return;
  state.average->restore(state.head.ema_updates);
  load_tensors(world, state.average->tensors(), std::move(checkpoint.ema), "average of the weights",
               divided_average(*state.average));
}

// Calls `load`, which loads the state in the directory `checkpoint`; errors in its content name it.
template <class Load>
void load_from(const std::filesystem::path& checkpoint, const Load& load) {
  try {
    load();
  } catch (const PeerError&) {
    throw;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::Config) throw;
    throw config_error(fmt::format("{}: {}", printable(checkpoint.string(), 400), error.what()));
  }
}

// Returns {"rejected": [...], "head": {...} or null}.
nlohmann::json find_checkpoint(const std::filesystem::path& checkpoints,
                               const std::filesystem::path& base, Checkpoint& checkpoint) {
  std::vector<std::string> rejected;
  auto found = read_last_good_checkpoint(checkpoints, rejected);
  nlohmann::json result = {{"rejected", rejected}, {"head", nullptr}};
  if (!found) return result;
  checkpoint = std::move(*found);
  add_base(checkpoint, base);
  result["head"] = describe_head(checkpoint.head);
  return result;
}

}  // namespace

Checkpoint live_state(const TrainingState& state) {
  Checkpoint checkpoint{.head = state.head, .model = tensors_of(state.model)};
  if (!state.optimizer.is_sharded()) checkpoint.optimizer = state.optimizer.state();
  for (const auto& item : state.model.named_buffers()) checkpoint.main_only.insert(item.key());
  if (state.average) {
    checkpoint.head.ema_updates = state.average->num_updates();
    checkpoint.ema = state.average->tensors();
  }
  for (auto* list : {&checkpoint.model, &checkpoint.ema})
    std::erase_if(*list, [&](const auto& item) { return state.head.base.has(item.first); });
  return checkpoint;
}

void add_kept_shards(Checkpoint& checkpoint, const distributed::KeptShards& kept) {
  using distributed::KeptShards;
  const at::NoGradGuard no_grad;
  std::map<std::string, at::Tensor> weights(checkpoint.model.begin(), checkpoint.model.end());
  std::map<std::string, int64_t> missing;  // elements, by name
  for (const auto& item : kept.collect()) {
    const auto& parameter = weights.at(item.parameter);
    const bool is_divided = item.begin != KeptShards::kWhole;
    at::Tensor whole = parameter;
    if (item.list == "optimizer") {
      auto [found, is_new] = missing.emplace(item.name, is_divided ? parameter.numel() : 1);
      if (is_new)
        checkpoint.optimizer.emplace_back(
            item.name, is_divided ? at::empty_strided(parameter.sizes(), parameter.strides(),
                                                      item.tensor.options())
                                  : item.tensor.squeeze().clone());
      if (!is_divided) {
        found->second = 0;
        continue;
      }
      found->second -= item.tensor.numel();
      whole = *find_tensor(checkpoint.optimizer, item.name);
    }
    distributed::flat_view(whole).narrow(0, item.begin, item.tensor.numel()).copy_(item.tensor);
  }
  for (const auto& [name, count] : missing)
    check(count == 0, "a part of the optimizer's state did not outlive its rank");
}

CapturedState capture_state(World& world, const TrainingState& state) {
  auto checkpoint = live_state(state);
  checkpoint.head.world_size = world.world_size();
  checkpoint.head.gradient_order = state.parallel.gradient_order();
  if (checkpoint.head.ema_updates == 0) checkpoint.ema.clear();  // nothing averaged yet
  std::vector<DividedState> divided;
  const auto add = [&](const char* list, NamedTensors& tensors, const Divided& all) {
    for (auto& [name, tensor] : tensors)
      if (const auto found = all.find(name); found != all.end()) {
        tensor = found->second.whole;
        divided.push_back({.list = list, .name = name, .tensor = found->second});
      }
  };
  add("model", checkpoint.model, divided_weights(state.parallel));
  if (state.average) add("ema", checkpoint.ema, divided_average(*state.average));
  for (auto& tensor : state.optimizer.divided_state()) {
    checkpoint.optimizer.emplace_back(tensor.name, tensor.tensor.whole);
    divided.push_back(std::move(tensor));
  }
  for (const auto& [ending, generator] : generators_of(world)) {
    const auto states = distributed::all_gather(world, generator.get_state(), "random states");
    for (int rank = 0; rank < world.world_size(); ++rank)
      checkpoint.rng.emplace_back(rng_name(rank, ending), states[static_cast<size_t>(rank)]);
  }
  const auto* const sharding = state.parallel.sharding();
  return {std::move(checkpoint),
          StateStream(sharding ? sharding->ranks() : world, std::move(divided))};
}

std::vector<std::string> restore_state(World& world, const TrainingState& state,
                                       const std::filesystem::path& checkpoints) {
  const at::NoGradGuard no_grad;
  Checkpoint checkpoint;
  const auto result = distributed::act_on_main(world, "checkpoint to resume", [&] {
    return find_checkpoint(checkpoints, state.base, checkpoint);
  });
  auto rejected = result["rejected"].get<std::vector<std::string>>();
  if (result["head"].is_null()) {
    verify_no_checkpoint_elsewhere(world, checkpoints);
    return rejected;
  }
  state.head = read_head(result["head"]);
  load_from(checkpoints / std::to_string(state.head.position.step),
            [&] { load_state(world, state, checkpoint); });
  const auto keep_whole = [](const auto&, const auto& tensor) { return tensor; };
  checkpoint.rng = broadcast_tensors(world, std::move(checkpoint.rng), "random states", keep_whole);
  restore_rng(world, checkpoint);
  return rejected;
}

void spread_state(World& world, const TrainingState& state, Checkpoint checkpoint) {
  const at::NoGradGuard no_grad;
  if (!tracking::is_main(world.rank())) checkpoint = Checkpoint();
  for (auto* list : {&checkpoint.model, &checkpoint.optimizer, &checkpoint.ema})
    for (auto& [name, tensor] : *list) tensor = tensor.contiguous();  // as in a file
  state.head = read_head(
      distributed::broadcast_object(world, describe_head(checkpoint.head), 0, "training state"));
  load_state(world, state, checkpoint);
}

RestoredWeights restore_weights(World& world, Model& model,
                                const std::filesystem::path& checkpoints, bool averaged,
                                const std::filesystem::path& base) {
  const at::NoGradGuard no_grad;
  Checkpoint checkpoint;
  const auto result = distributed::act_on_main(world, "weights of a checkpoint", [&] {
    return find_checkpoint(checkpoints, base, checkpoint);
  });
  if (result["head"].is_null())
    throw environment_error(fmt::format("{} no longer has a checkpoint", checkpoints.string()));
  const auto head = read_head(result["head"]);
  RestoredWeights restored{.step = head.position.step,
                           .averaged = averaged && head.ema_updates > 0,
                           .rejected = result["rejected"].get<std::vector<std::string>>()};
  auto& weights = restored.averaged ? checkpoint.ema : checkpoint.model;
  load_from(checkpoints / std::to_string(restored.step),
            [&] { load_tensors(world, tensors_of(model), std::move(weights), "weights"); });
  return restored;
}

}  // namespace lockstep::trainer
