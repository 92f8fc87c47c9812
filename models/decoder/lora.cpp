#include "models/decoder/lora.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "core/printable.h"
#include "lockstep/error.h"
#include "models/decoder/decoder_layer.h"

namespace lockstep::models {
namespace {

std::string last_part(const std::string& name) { return name.substr(name.rfind('.') + 1); }

bool is_named(const std::string& module, const std::string& target) {
  return module == target || module.ends_with("." + target);
}

// The projections of the layers by name, without the routers of experts.
std::vector<std::pair<std::string, Projection*>> projections_of(torch::nn::Module& model) {
  std::set<const Projection*> routers;
  std::vector<std::pair<std::string, Projection*>> found;
  for (const auto& item : model.named_modules("", /*include_self=*/false)) {
    if (const auto* experts = dynamic_cast<const Experts*>(item.value().get()))
      routers.insert(experts->router());
    auto* projection = dynamic_cast<Projection*>(item.value().get());
    const bool is_in_layer = item.key().find(".layers.") != std::string::npos;
    if (projection && is_in_layer && !routers.contains(projection))
      found.emplace_back(item.key(), projection);
  }
  return found;
}

}  // namespace

double LoraConfig::scale() const {
  const auto size = static_cast<double>(rank);
  return alpha / (rslora ? std::sqrt(size) : size);
}

std::vector<std::string> add_lora(torch::nn::Module& model, const LoraConfig& config,
                                  const std::string& name) {
  const auto all = projections_of(model);
  for (const auto& target : config.targets)
    if (std::ranges::none_of(all, [&](const auto& item) { return is_named(item.first, target); })) {
      std::set<std::string> names;
      for (const auto& [path, projection] : all) names.insert(last_part(path));
      throw config_error(
          fmt::format("model {}: lora.targets: no projection is called '{}'; there are {}", name,
                      printable(target, 100), fmt::join(names, ", ")));
    }
  for (auto& parameter : model.parameters()) parameter.requires_grad_(false);
  std::vector<std::string> chosen;
  for (const auto& [path, projection] : all) {
    const auto matches = [&path = path](const std::string& target) {
      return is_named(path, target);
    };
    if (!config.targets.empty() && std::ranges::none_of(config.targets, matches)) continue;
    projection->add_lora(config);
    chosen.push_back(path);
  }
  return chosen;
}

ExportedFiles peft_files(const LoraConfig& config, const std::vector<std::string>& projections,
                         const std::string& base) {
  std::set<std::string> targets;
  ExportedFiles files;
  auto& tensors = files.tensors["adapter_model.safetensors"];
  for (const auto& path : projections) {
    targets.insert(last_part(path));
    for (const auto* matrix : {"lora_A", "lora_B"}) {
      const auto weight = fmt::format("{}.{}.weight", path, matrix);
      tensors[weight] = "base_model.model." + weight;
    }
  }
  const nlohmann::ordered_json json = {{"peft_type", "LORA"},
                                       {"task_type", "CAUSAL_LM"},
                                       {"base_model_name_or_path", base},
                                       {"r", config.rank},
                                       {"lora_alpha", config.alpha},
                                       {"lora_dropout", config.dropout},
                                       {"use_rslora", config.rslora},
                                       {"target_modules", targets},
                                       {"bias", "none"},
                                       {"fan_in_fan_out", false},
                                       {"init_lora_weights", true},
                                       {"inference_mode", true}};
  files.texts["adapter_config.json"] = json.dump(2) + "\n";
  return files;
}

}  // namespace lockstep::models
