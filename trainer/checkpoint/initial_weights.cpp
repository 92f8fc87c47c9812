#include "trainer/checkpoint/initial_weights.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>

#include "core/config/nearest_name.h"
#include "core/printable.h"
#include "distributed/collectives.h"
#include "distributed/objects.h"
#include "lockstep/error.h"
#include "lockstep/named_tensors.h"
#include "trainer/checkpoint/base_weights.h"
#include "trainer/checkpoint/chosen_weights.h"

namespace lockstep::trainer {
namespace {

std::vector<std::string> names_of_tensors(const NamedTensors& tensors) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors) names.push_back(name);
  return names;
}

std::string missing_text(const std::string& name, const std::vector<std::string>& there) {
  if (there.empty()) return "tensors";
  const auto example = nearest_name(name, there).value_or(there.front());
  return fmt::format("'{}', which the model has; it has {} tensors, e.g. '{}'", name, there.size(),
                     printable(example, 200));
}

// Describes why `loaded` does not fit `model`; empty: it fits. `hint`: how to skip a tensor.
std::string misfit(const NamedTensors& model, const NamedTensors& loaded, const char* hint) {
  for (const auto& [name, tensor] : model) {
    const auto* found = find_tensor(loaded, name);
    if (!found) return "has no " + missing_text(name, names_of_tensors(loaded));
    if (found->sizes() != tensor.sizes())
      return fmt::format("'{}' is {} in the file and {} in the model{}", name,
                         nlohmann::json(found->sizes().vec()).dump(),
                         nlohmann::json(tensor.sizes().vec()).dump(), hint);
  }
  for (const auto& [name, tensor] : loaded)
    if (!find_tensor(model, name))
      return fmt::format("has '{}', which the model does not have{}", printable(name, 200), hint);
  return {};
}

// A file that the user names is input: a corrupt or missing one is Config.
NamedTensors weights_in(const std::filesystem::path& path, const char* setting) {
  try {
    return read_weights(path);
  } catch (const Error& error) {
    throw config_error(fmt::format("{}: {}", setting, error.what()));
  }
}

NamedTensors without(const NamedTensors& tensors, const std::vector<std::string>& except) {
  NamedTensors kept;
  for (const auto& item : tensors)
    if (!is_chosen(item.first, except)) kept.push_back(item);
  return kept;
}

// The tensors that `names` lists, with their names in the model.
NamedTensors renamed(const NamedTensors& stored, const std::map<std::string, std::string>& names) {
  NamedTensors tensors;
  for (const auto& [name, name_in_file] : names)
    if (const auto* found = find_tensor(stored, name_in_file)) tensors.emplace_back(name, *found);
  return tensors;
}

bool is_unused(const std::string& name, const InitialWeights& weights) {
  return std::ranges::any_of(weights.unused, [&](const std::string& other) {
    return name == other || name.ends_with("." + other);
  });
}

// Removes tensors that are neither in the model nor used. Returns why that is wrong; empty: it is not.
std::string drop_unused(NamedTensors& loaded, const NamedTensors& model,
                        const InitialWeights& weights) {
  for (const auto& [name, source] : weights.copies) {
    const auto* const copy = find_tensor(loaded, name);
    const auto* const original = find_tensor(loaded, source);
    if (!copy || !original || find_tensor(model, name)) continue;
    if (copy->scalar_type() != original->scalar_type() || !at::equal(*copy, *original))
      return fmt::format("'{}' differs from '{}', but the model uses one tensor as both", name,
                         source);
  }
  std::erase_if(loaded, [&](const auto& item) {
    const bool is_known = weights.copies.contains(item.first) || is_unused(item.first, weights);
    return is_known && !find_tensor(model, item.first);
  });
  return {};
}

// The tensors of a file, by those of the model without `except`. `is_of_model`: whether the
// model names the file, rather than train.init_from. Throws Config if they do not match.
NamedTensors weights_for(const NamedTensors& all_of_model, const InitialWeights& weights,
                         bool is_of_model) {
  const auto* const setting = is_of_model ? "model" : "train.init_from";
  const auto& path = weights.file;
  const auto& except = weights.except;
  auto all_loaded = weights_in(path, setting);
  if (!weights.names.empty()) all_loaded = renamed(all_loaded, weights.names);
  auto names = names_of_tensors(all_of_model);
  for (const auto& [name, tensor] : all_loaded) names.push_back(name);
  verify_chosen("train.init_except", except, names);
  auto loaded = without(all_loaded, except);
  const auto* const hint = is_of_model ? "" : "; train.init_except skips it";
  auto problem = drop_unused(loaded, all_of_model, weights);
  if (problem.empty()) problem = misfit(without(all_of_model, except), loaded, hint);
  if (!problem.empty())
    throw config_error(fmt::format("{}: {}: {}", setting, printable(path.string(), 400), problem));
  return loaded;
}

// The tensors of an adapter, with their names in the model.
NamedTensors adapter_for(const NamedTensors& model, const InitialWeights& weights) {
  const auto refuse = [&](const std::string& problem) {
    throw config_error(fmt::format("lora.path: {}: {}: is it an adapter of another base model?",
                                   printable(weights.adapter.string(), 400), problem));
  };
  const auto in_file = weights_in(weights.adapter, "lora.path");
  NamedTensors loaded;
  for (const auto& [name, name_in_file] : weights.adapter_names) {
    const auto* const tensor = find_tensor(in_file, name_in_file);
    const auto* const target = find_tensor(model, name);
    check(target != nullptr, "an adapter's weight is not in the model");
    if (!tensor)
      refuse(fmt::format("has no '{}', which the model needs", printable(name_in_file, 200)));
    if (tensor->sizes() != target->sizes())
      refuse(fmt::format("'{}' is {} in the file and {} in the model", printable(name_in_file, 200),
                         nlohmann::json(tensor->sizes().vec()).dump(),
                         nlohmann::json(target->sizes().vec()).dump()));
    loaded.emplace_back(name, *tensor);
  }
  if (loaded.size() == in_file.size()) return loaded;
  std::set<std::string> expected;
  for (const auto& [name, name_in_file] : weights.adapter_names) expected.insert(name_in_file);
  for (const auto& [name, tensor] : in_file)
    if (!expected.contains(name))
      refuse(fmt::format("has '{}', which the model does not have", printable(name, 200)));
  return loaded;
}

// What rank 0 loads into the model.
struct LoadedWeights {
  NamedTensors tensors;
  BaseWeights base;
};

// The tensors of the first file that training does not change and the adapter does not replace.
BaseWeights base_of(const InitialWeights& weights, const NamedTensors& from_file,
                    const std::set<std::string>& changed) {
  BaseWeights base{.path = std::filesystem::absolute(weights.file).string(), .checksums = {}};
  for (const auto& [name, tensor] : from_file)
    if (!changed.contains(name) && !weights.adapter_names.contains(name))
      base.checksums[name] = checksum_of(tensor);
  return base;
}

LoadedWeights load_files(const NamedTensors& model, const InitialWeights& weights,
                         const std::set<std::string>& changed, bool is_of_model) {
  LoadedWeights loaded{.tensors = weights_for(model, weights, is_of_model), .base = {}};
  if (weights.is_base) loaded.base = base_of(weights, loaded.tensors, changed);
  NamedTensors adapter;
  if (!weights.adapter.empty()) adapter = adapter_for(model, weights);
  for (auto& item : adapter) {
    std::erase_if(loaded.tensors, [&](const auto& other) { return other.first == item.first; });
    loaded.tensors.push_back(std::move(item));
  }
  for (const auto& [name, computed] : weights.computed) {
    if (find_tensor(loaded.tensors, name)) continue;
    const auto* const from = find_tensor(loaded.tensors, computed.from);
    const auto* const target = find_tensor(model, name);
    check(from && target, "a computed weight has no source");
    loaded.tensors.emplace_back(name, computed.compute(from->to(target->scalar_type())));
  }
  return loaded;
}

// Removes a tensor, so that its memory is freed after use. Returns an undefined one if there is none.
at::Tensor take_tensor(NamedTensors& tensors, const std::string& name) {
  const auto found = std::ranges::find(tensors, name, &NamedTensors::value_type::first);
  return found == tensors.end() ? at::Tensor() : std::exchange(found->second, {});
}

}  // namespace

bool is_loaded(const std::string& name, const InitialWeights& weights) {
  return !is_chosen(name, weights.except) || weights.adapter_names.contains(name) ||
         weights.computed.contains(name);
}

BaseWeights load_initial_weights(World& world, Model& model, const InitialWeights& weights,
                                 const distributed::Sharding* sharding) {
  const at::NoGradGuard no_grad;
  const auto tensors = tensors_of(model);
  std::set<std::string> changed;  // by training
  for (const auto& [name, parameter] : trainable_parameters(model)) changed.insert(name);
  for (const auto& item : model.named_buffers()) changed.insert(item.key());
  const bool is_of_model = model.initial_weights().file == weights.file;
  NamedTensors loaded;  // on rank 0
  const auto base = distributed::act_on_main(world, "initial weights", [&] {
    auto files = load_files(tensors, weights, changed, is_of_model);
    loaded = std::move(files.tensors);
    return nlohmann::json(describe_base(files.base));
  });
  const bool is_full = sharding && sharding->is_full();
  for (auto [name, tensor] : tensors) {
    if (!is_loaded(name, weights)) continue;
    const auto value = take_tensor(loaded, name);
    if (is_full && sharding->set_weight(name, value)) continue;
    if (value.defined()) tensor.copy_(value);
    distributed::broadcast(world, tensor, 0, "initial weights " + name);
  }
  if (is_full) sharding->publish_weights(world);
  return parse_base(base);
}

}  // namespace lockstep::trainer
