#include "trainer/checkpoint/initial_weights.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "core/config/nearest_name.h"
#include "core/printable.h"
#include "core/system/durable_file.h"
#include "distributed/collectives.h"
#include "distributed/objects.h"
#include "formats/safetensors_index.h"
#include "lockstep/error.h"
#include "lockstep/named_tensors.h"
#include "trainer/checkpoint/chosen_weights.h"
#include "trainer/checkpoint/safetensors.h"

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

// Describes why `loaded` does not fit `model`; empty: it fits.
std::string misfit(const NamedTensors& model, const NamedTensors& loaded) {
  for (const auto& [name, tensor] : model) {
    const auto* found = find_tensor(loaded, name);
    if (!found) return "has no " + missing_text(name, names_of_tensors(loaded));
    if (found->sizes() != tensor.sizes())
      return fmt::format("'{}' is {} in the file and {} in the model; train.init_except skips it",
                         name, nlohmann::json(found->sizes().vec()).dump(),
                         nlohmann::json(tensor.sizes().vec()).dump());
  }
  for (const auto& [name, tensor] : loaded)
    if (!find_tensor(model, name))
      return fmt::format("has '{}', which the model does not have; train.init_except skips it",
                         printable(name, 200));
  return {};
}

// The tensors of all files of an index; each must be in the file that the index names.
NamedTensors weights_of_index(const std::filesystem::path& path) {
  const auto file_of =
      formats::parse_safetensors_index(read_file(path), printable(path.string(), 400));
  std::set<std::string> files;
  for (const auto& [tensor, file] : file_of) files.insert(file);
  NamedTensors tensors;
  for (const auto& file : files)
    for (auto& item : read_safetensors(path.parent_path() / file)) {
      const auto expected = file_of.find(item.first);
      if (expected == file_of.end() || expected->second != file)
        throw environment_error(fmt::format("{} contains '{}', which {} does not list there", file,
                                            printable(item.first, 200), path.string()));
      tensors.push_back(std::move(item));
    }
  return tensors;
}

// A file that the user names is input: a corrupt or missing one is Config.
NamedTensors weights_in(const std::filesystem::path& path) {
  try {
    const bool is_index = path.string().ends_with(formats::kSafetensorsIndexEnding);
    return is_index ? weights_of_index(path) : read_safetensors(path);
  } catch (const Error& error) {
    throw config_error(fmt::format("train.init_from: {}", error.what()));
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

// The tensors of a file, by those of the model without `except`. Throws Config if they do not match.
NamedTensors weights_for(const NamedTensors& all_of_model, const std::filesystem::path& path,
                         const std::vector<std::string>& except,
                         const std::map<std::string, std::string>& names_in_file) {
  auto all_loaded = weights_in(path);
  if (!names_in_file.empty()) all_loaded = renamed(all_loaded, names_in_file);
  auto names = names_of_tensors(all_of_model);
  for (const auto& [name, tensor] : all_loaded) names.push_back(name);
  verify_chosen("train.init_except", except, names);
  auto loaded = without(all_loaded, except);
  const auto problem = misfit(without(all_of_model, except), loaded);
  if (!problem.empty())
    throw config_error(
        fmt::format("train.init_from: {}: {}", printable(path.string(), 400), problem));
  return loaded;
}

// Removes a tensor, so that its memory is freed after use. Returns an undefined one if there is none.
at::Tensor take_tensor(NamedTensors& tensors, const std::string& name) {
  const auto found = std::ranges::find(tensors, name, &NamedTensors::value_type::first);
  return found == tensors.end() ? at::Tensor() : std::exchange(found->second, {});
}

}  // namespace

void load_initial_weights(World& world, Model& model, const std::filesystem::path& path,
                          const std::vector<std::string>& except,
                          const std::map<std::string, std::string>& names,
                          const distributed::Sharding* sharding) {
  const at::NoGradGuard no_grad;
  const auto tensors = tensors_of(model);
  NamedTensors loaded;  // on rank 0
  distributed::act_on_main(world, "initial weights", [&] {
    loaded = weights_for(tensors, path, except, names);
    return true;
  });
  const bool is_full = sharding && sharding->is_full();
  for (auto [name, tensor] : tensors) {
    if (is_chosen(name, except)) continue;
    const auto value = take_tensor(loaded, name);
    if (is_full && sharding->set_weight(name, value)) continue;
    if (value.defined()) tensor.copy_(value);
    distributed::broadcast(world, tensor, 0, "initial weights " + name);
  }
  if (is_full) sharding->publish_weights(world);
}

std::map<std::string, std::string> names_in_own_file(const Model& model,
                                                     const std::filesystem::path& file) {
  auto own = model.initial_weights();
  return own.file == file ? std::move(own.names) : std::map<std::string, std::string>();
}

}  // namespace lockstep::trainer
