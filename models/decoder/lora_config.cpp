#include "models/decoder/lora_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <set>

#include "core/printable.h"
#include "core/system/durable_file.h"
#include "models/hf/hf_map.h"

namespace lockstep::models {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxAdapterConfigBytes = 1u << 20;
constexpr int64_t kMaxRank = 1 << 20;

// Settings that change what an adapter computes or contains, and that are not supported.
constexpr std::array kUnsupported = {"rank_pattern",
                                     "alpha_pattern",
                                     "exclude_modules",
                                     "layers_to_transform",
                                     "layers_pattern",
                                     "layer_replication",
                                     "target_parameters",
                                     "trainable_token_indices",
                                     "lora_bias",
                                     "fan_in_fan_out",
                                     "use_qalora",
                                     "use_bdlora",
                                     "alora_invocation_tokens"};

// Names in "init_lora_weights" with which PEFT leaves the base model as it is.
constexpr std::array kInitializations = {"gaussian", "eva", "orthogonal"};

bool is_set(const HfMap& map, const char* key) {
  if (!map.has(key)) return false;
  const auto& value = map.at(key);
  if (value.is_boolean()) return value.get<bool>();
  return !(value.is_array() || value.is_object()) || !value.empty();
}

std::vector<std::string> targets_of(const HfMap& map) {
  if (!map.has("target_modules")) throw map.wrong("'target_modules' is missing");
  if (!map.at("target_modules").is_string()) {
    auto targets = map.texts("target_modules");
    if (targets.empty()) throw map.wrong("'target_modules' is empty");
    return targets;
  }
  if (map.text("target_modules") == "all-linear") return {};
  throw map.wrong(fmt::format(
      "'target_modules' is the pattern '{}'; a list of names and 'all-linear' are supported",
      printable(map.text("target_modules"), 100)));
}

// PEFT also changes the weights of the base model when it reads an adapter with another one.
void verify_initialization(const HfMap& map) {
  constexpr const char* kKey = "init_lora_weights";
  if (!map.has(kKey) || map.at(kKey).is_boolean()) return;
  const auto name = map.text(kKey);
  if (std::ranges::find(kInitializations, name) == kInitializations.end())
    throw map.wrong(
        fmt::format("'{}' is '{}', with which PEFT changes the weights of the base model; convert "
                    "it with path_initial_model_for_weight_conversion of PEFT's save_pretrained()",
                    kKey, printable(name, 100)));
}

std::string value_text(double value) { return fmt::format("{}", value); }
std::string value_text(int64_t value) { return fmt::format("{}", value); }
std::string value_text(bool value) { return value ? "true" : "false"; }
std::string value_text(const std::vector<std::string>& names) {
  if (names.empty()) return "all";
  return printable(fmt::format("[{}]", fmt::join(names, ", ")), 200);
}

// A setting of a run file next to an adapter that has it too.
struct Contradiction {
  const std::string& model;
  const std::string& where;

  template <class T>
  void refuse(const char* key, const T& given, const T& in_adapter) const {
    throw config_error(fmt::format("model {}: lora.{} is {}, but {} has {}; remove it", model, key,
                                   value_text(given), where, value_text(in_adapter)));
  }
  template <class T>
  void verify(const char* key, const std::optional<T>& given, const T& in_adapter) const {
    if (given && *given != in_adapter) refuse(key, *given, in_adapter);
  }
  void verify(const char* key, const std::vector<std::string>& given,
              const std::vector<std::string>& in_adapter) const {
    const std::set<std::string> a(given.begin(), given.end()),
        b(in_adapter.begin(), in_adapter.end());
    if (!given.empty() && a != b) refuse(key, given, in_adapter);
  }
};

}  // namespace

double LoraConfig::scale() const {
  const auto size = static_cast<double>(rank);
  return alpha / (rslora ? std::sqrt(size) : size);
}

LoraConfig parse_adapter_config(std::string_view json, const std::string& where) {
  const auto parsed = parse_hf_json(json, where);
  const HfMap map(parsed, where);
  const auto type = map.text("peft_type");
  if (type != "LORA")
    throw map.wrong(
        fmt::format("peft_type '{}' is not supported, only LORA", printable(type, 100)));
  for (const auto* key : kUnsupported)
    if (is_set(map, key)) throw map.wrong(fmt::format("'{}' is not supported", key));
  if (const auto bias = map.text("bias", "none"); bias != "none")
    throw map.wrong(fmt::format("'bias' is '{}'; only 'none' is supported", printable(bias, 100)));
  verify_initialization(map);
  LoraConfig config{.rank = map.size("r", 8),
                    .alpha = map.number("lora_alpha", 8),
                    .dropout = map.number("lora_dropout", 0),
                    .targets = targets_of(map),
                    .rslora = map.flag("use_rslora", false),
                    .dora = map.flag("use_dora", false),
                    .modules_to_save = map.texts("modules_to_save")};
  if (config.rank > kMaxRank)
    throw map.wrong(fmt::format("'r' is {}, at most {} is valid", config.rank, kMaxRank));
  if (config.alpha <= 0) throw map.wrong("'lora_alpha' must be positive");
  if (config.dropout < 0 || config.dropout >= 1)
    throw map.wrong("'lora_dropout' must be at least 0 and below 1");
  return config;
}

std::string adapter_config_text(const LoraConfig& config, const std::vector<std::string>& targets,
                                const std::string& base) {
  nlohmann::ordered_json json = {{"peft_type", "LORA"},
                                 {"task_type", "CAUSAL_LM"},
                                 {"base_model_name_or_path", base},
                                 {"r", config.rank},
                                 {"lora_alpha", config.alpha},
                                 {"lora_dropout", config.dropout},
                                 {"use_rslora", config.rslora},
                                 {"use_dora", config.dora},
                                 {"target_modules", targets},
                                 {"modules_to_save", nullptr},
                                 {"bias", "none"},
                                 {"fan_in_fan_out", false},
                                 {"init_lora_weights", true},
                                 {"inference_mode", true}};
  if (!config.modules_to_save.empty()) json["modules_to_save"] = config.modules_to_save;
  return json.dump(2) + "\n";
}

LoraConfig resolve_lora(const LoraSettings& settings, const std::string& model) {
  const LoraConfig defaults;
  if (!settings.path)
    return {.rank = settings.rank.value_or(defaults.rank),
            .alpha = settings.alpha.value_or(defaults.alpha),
            .dropout = settings.dropout.value_or(defaults.dropout),
            .targets = settings.targets,
            .rslora = settings.rslora.value_or(false),
            .dora = settings.dora.value_or(false),
            .modules_to_save = settings.modules_to_save};
  const auto file = fs::path(*settings.path) / kAdapterConfig;
  std::error_code ignored;
  for (const auto* name : {kAdapterConfig, kAdapterWeights})
    if (!fs::is_regular_file(fs::path(*settings.path) / name, ignored))
      throw config_error(
          fmt::format("model {}: lora.path: {} has no {}: expected a directory written by PEFT's "
                      "save_pretrained()",
                      model, printable(*settings.path, 400), name));
  const auto where = printable(file.string(), 400);
  auto config = parse_adapter_config(read_file(file, kMaxAdapterConfigBytes), where);
  const Contradiction contradiction{model, where};
  contradiction.verify("rank", settings.rank, config.rank);
  contradiction.verify("alpha", settings.alpha, config.alpha);
  contradiction.verify("dropout", settings.dropout, config.dropout);
  contradiction.verify("targets", settings.targets, config.targets);
  contradiction.verify("rslora", settings.rslora, config.rslora);
  contradiction.verify("dora", settings.dora, config.dora);
  contradiction.verify("modules_to_save", settings.modules_to_save, config.modules_to_save);
  return config;
}

}  // namespace lockstep::models
