// The settings of low-rank adapters, from a run file or PEFT's adapter_config.json. No LibTorch.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/config_fields.h"

namespace lockstep::models {

struct LoraConfig {
  int64_t rank = 0;  // 0: no adapters
  double alpha = 16, dropout = 0;
  std::vector<std::string> targets;  // empty: all projections of the layers
  bool rslora = false, dora = false;
  std::vector<std::string> modules_to_save;  // trained in full

  double scale() const;  // of the product B A
};

// `lora:` of a run file.
struct LoraSettings {
  std::optional<std::string> path;
  std::optional<int64_t> rank;
  std::optional<double> alpha, dropout;
  std::vector<std::string> targets;
  std::optional<bool> rslora, dora;
  std::vector<std::string> modules_to_save;
};

template <class V>
void fields(V& v, LoraSettings& c) {
  const auto has_adapters = needs("lora.rank", "lora.path");
  v("path", c.path,
    "a directory with an adapter to continue, as written by PEFT's save_pretrained(): "
    "adapter_config.json, which has the settings below, and adapter_model.safetensors");
  v("rank", c.rank,
    "rank of the low-rank adapters that are trained instead of the weights; 0: none", at_least(0));
  v("alpha", c.alpha, "the adapters' output is scaled by alpha / rank; default: 16", above(0),
    has_adapters);
  v("dropout", c.dropout, "dropout probability of the adapters' input; default: 0", at_least(0),
    below(1), has_adapters);
  v("targets", c.targets,
    "projections with adapters, by the last parts of their names, e.g. [q_proj, v_proj]; default: "
    "all in "
    "the layers",
    has_adapters);
  v("rslora", c.rslora, "whether to scale by alpha / sqrt(rank) instead (rank-stabilized LoRA)",
    has_adapters);
  v("dora", c.dora,
    "whether to train the magnitude of each row of the adapted weights separately (DoRA)",
    has_adapters);
  v("modules_to_save", c.modules_to_save,
    "modules that are trained in full, by the last parts of their names, e.g. [lm_head, "
    "embed_tokens]; they are saved with the adapters",
    has_adapters);
}

// Reads the adapter_config.json of PEFT. `where`: for messages. Throws Config: invalid JSON, values
// out of range, adapters of kinds that are not supported.
LoraConfig parse_adapter_config(std::string_view json, const std::string& where);

// The inverse. `targets`: the names to write. `base`: the directory of the base model.
std::string adapter_config_text(const LoraConfig& config, const std::vector<std::string>& targets,
                                const std::string& base);

// The settings with their defaults; with `path`, those of the adapter there. `model`: for messages.
// Throws Config, also if a setting contradicts the adapter.
LoraConfig resolve_lora(const LoraSettings& settings, const std::string& model);

inline constexpr const char* kAdapterConfig = "adapter_config.json";
inline constexpr const char* kAdapterWeights = "adapter_model.safetensors";

}  // namespace lockstep::models
