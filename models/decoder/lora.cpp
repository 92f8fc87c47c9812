#include "models/decoder/lora.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <utility>

#include "core/printable.h"
#include "lockstep/error.h"
#include "models/decoder/decoder_layer.h"

namespace lockstep::models {
namespace {

std::string last_part(const std::string& name) { return name.substr(name.rfind('.') + 1); }

bool is_named(const std::string& module, const std::string& target) {
  return module == target || module.ends_with("." + target);
}

bool is_one_of(const std::string& module, const std::vector<std::string>& targets) {
  return std::ranges::any_of(targets,
                             [&](const std::string& target) { return is_named(module, target); });
}

// The projections of the layers by name, without the routers of experts.
std::vector<std::pair<std::string, Projection*>> projections_of(torch::nn::Module& model) {
  std::set<const Projection*> routers;
  std::vector<std::pair<std::string, Projection*>> found;
  for (const auto& item : model.named_modules("", /*include_self=*/false)) {
    if (const auto* experts = dynamic_cast<const Experts*>(item.value().get()))
      for (const auto* router : experts->routers()) routers.insert(router);
    auto* projection = dynamic_cast<Projection*>(item.value().get());
    const bool is_in_layer = item.key().find(".layers.") != std::string::npos;
    if (projection && is_in_layer && !routers.contains(projection))
      found.emplace_back(item.key(), projection);
  }
  return found;
}

template <class Names>
void verify_names(const char* key, const std::vector<std::string>& targets, const Names& names,
                  const char* kind, const std::string& model) {
  for (const auto& target : targets) {
    if (std::ranges::any_of(names, [&](const auto& name) { return is_named(name, target); }))
      continue;
    std::set<std::string> choices;
    for (const auto& name : names) choices.insert(last_part(name));
    throw config_error(fmt::format("model {}: lora.{}: no {} is called '{}'; there are {}", model,
                                   key, kind, printable(target, 100), fmt::join(choices, ", ")));
  }
}

// Modules that directly contain parameters, except adapters and projections that have one.
std::vector<std::string> modules_with_weights(const torch::nn::Module& model) {
  std::vector<std::string> names;
  for (const auto& item : model.named_modules("", /*include_self=*/false)) {
    const auto* const projection = dynamic_cast<const Projection*>(item.value().get());
    const bool is_adapter = item.key().find(".lora_") != std::string::npos;
    if (!is_adapter && !(projection && projection->lora_a.defined()) &&
        !item.value()->parameters(/*recurse=*/false).empty())
      names.push_back(item.key());
  }
  return names;
}

std::vector<std::string> train_in_full(torch::nn::Module& model,
                                       const std::vector<std::string>& targets,
                                       const std::string& name) {
  const auto modules = modules_with_weights(model);
  verify_names("modules_to_save", targets, modules, "module without adapter", name);
  std::vector<std::string> saved;
  for (auto& item : model.named_parameters()) {
    const auto module = item.key().substr(0, item.key().rfind('.'));
    if (!is_one_of(module, targets) || std::ranges::find(modules, module) == modules.end())
      continue;
    item.value().requires_grad_(true);
    saved.push_back(item.key());
  }
  return saved;
}

}  // namespace

Adapters add_lora(torch::nn::Module& model, const LoraConfig& config, bool has_values,
                  const std::string& name) {
  const auto all = projections_of(model);
  std::vector<std::string> names;
  for (const auto& [path, projection] : all) names.push_back(path);
  verify_names("targets", config.targets, names, "projection", name);
  for (auto& parameter : model.parameters()) parameter.requires_grad_(false);
  Adapters adapters;
  for (const auto& [path, projection] : all) {
    if (!config.targets.empty() && !is_one_of(path, config.targets)) continue;
    projection->add_lora(config, has_values);
    adapters.projections.push_back(path);
  }
  adapters.saved = train_in_full(model, config.modules_to_save, name);
  return adapters;
}

std::string name_in_peft(const std::string& name) {
  constexpr std::string_view kWeight = ".weight";
  const bool is_magnitude = name.ends_with(".lora_magnitude_vector.weight");
  return "base_model.model." + (is_magnitude ? name.substr(0, name.size() - kWeight.size()) : name);
}

std::map<std::string, std::string> names_in_peft(const LoraConfig& config,
                                                 const Adapters& adapters) {
  auto trained = adapters.saved;
  for (const auto& path : adapters.projections) {
    for (const auto* matrix : {"lora_A", "lora_B"})
      trained.push_back(fmt::format("{}.{}.weight", path, matrix));
    if (config.dora) trained.push_back(path + ".lora_magnitude_vector.weight");
  }
  std::map<std::string, std::string> names;
  for (const auto& name : trained) names[name] = name_in_peft(name);
  return names;
}

ExportedFiles peft_files(const LoraConfig& config, const Adapters& adapters,
                         const std::string& base) {
  auto targets = config.targets;
  if (targets.empty()) {
    std::set<std::string> names;
    for (const auto& path : adapters.projections) names.insert(last_part(path));
    targets.assign(names.begin(), names.end());
  }
  ExportedFiles files;
  files.tensors[kAdapterWeights] = names_in_peft(config, adapters);
  files.texts[kAdapterConfig] = adapter_config_text(config, targets, base);
  return files;
}

at::Tensor row_norms(const at::Tensor& weight, const at::Tensor& a, const at::Tensor& b,
                     double scale) {
  const at::NoGradGuard no_grad;
  return at::linalg_vector_norm(weight.to(a.scalar_type()) + at::matmul(b, a) * scale, 2, 1);
}

at::Tensor merged_weight(const at::Tensor& weight, const at::Tensor& a, const at::Tensor& b,
                         const at::Tensor& magnitude, double scale) {
  const at::NoGradGuard no_grad;
  auto merged = weight.to(a.scalar_type()) + at::matmul(b, a) * scale;
  if (magnitude.defined())
    merged = merged * (magnitude / row_norms(weight, a, b, scale)).unsqueeze(1);
  return merged.to(weight.scalar_type());
}

}  // namespace lockstep::models
