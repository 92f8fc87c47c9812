#include "trainer/config/run_config.h"

#include <fmt/format.h>
#include <torch/version.h>

#include "core/config/plugin.h"
#include "core/config/run_file.h"
#include "launch/environment/rank_env.h"
#include "tracking/alerts/alert_rules.h"

namespace lockstep {
namespace {

ConfigNode read_run_file_at(const std::filesystem::path& path,
                            const std::vector<std::string>& overrides) {
  return read_run_file(path, overrides,
                       [](const std::string& variable) { return environment(variable.c_str()); });
}

void load_plugins(const ConfigNode& root) {
  const auto* plugins = root.find("plugins");
  if (!plugins) return;
  for (const auto& path : ConfigValue<std::vector<std::string>>::read(*plugins, "plugins"))
    load_plugin(path, TORCH_VERSION);
}

// Sinks work in the tracking agent, which has no LibTorch; the trainer loads them to judge the
// file.
void load_sink_plugins(const ConfigNode& root) {
  const auto* tracking = root.find("tracking");
  const bool has_any = tracking && tracking->kind == ConfigNode::Kind::Map;
  if (const auto* plugins = has_any ? tracking->find("plugins") : nullptr)
    for (const auto& path :
         ConfigValue<std::vector<std::string>>::read(*plugins, "tracking.plugins"))
      load_plugin(path, "");
}

void verify_registries() {
  sink_registry().verify();
  model_registry().verify();
  dataset_registry().verify();
  optimizer_registry().verify();
  schedule_registry().verify();
}

// train.ema without the number that switches it on.
void refuse_idle_average(const ConfigNode& root, const EmaConfig& config) {
  if (config.decay) return;
  const EmaConfig defaults;
  for (const auto& [key, differs] :
       {std::pair{"every", config.every != defaults.every}, {"warmup", config.warmup}})
    if (differs)
      throw config_error(fmt::format("{}: train.ema.{}: has no effect without train.ema.decay",
                                     root.find("train")->find("ema")->find(key)->origin, key));
}

// A setting that cannot take effect is an error: the user meant something by it. But for defaults:
// a resolved run file has them all.
void refuse_idle_settings(const ConfigNode& root, const RunConfig& config) {
  const auto given = [&](const char* section, const char* key) {
    const auto* map = root.find(section);
    const auto* node = map && map->kind == ConfigNode::Kind::Map ? map->find(key) : nullptr;
    return node && node->kind != ConfigNode::Kind::Null ? node : nullptr;
  };
  refuse_idle_average(root, config.train.ema);
  if (!config.train.init_except.empty() && !config.train.init_from)
    throw config_error(fmt::format("{}: train.init_except: has no effect without train.init_from",
                                   given("train", "init_except")->origin));
  if (config.checkpoint.keep_every && config.checkpoint.keep_every->unit == Period::Unit::Seconds)
    throw config_error(fmt::format("{}: checkpoint.keep_every: expected steps or epochs",
                                   given("checkpoint", "keep_every")->origin));
  if (config.data.eval.is_set() || config.data.split.eval) return;
  const RunConfig defaults;
  const auto& media = config.tracking.media;
  for (const auto& [section, key, is_set] :
       {std::tuple{"data", "eval_batch_size",
                   config.data.eval_batch_size != defaults.data.eval_batch_size},
        {"train", "eval_every", config.train.eval_every != defaults.train.eval_every},
        {"train", "early_stop", config.train.early_stop.patience.has_value()},
        {"checkpoint", "keep_best", config.checkpoint.keep_best.count.has_value()},
        {"tracking", "media", media.confusion || media.histograms || media.worst_samples > 0}})
    if (is_set)
      throw config_error(
          fmt::format("{}: {}.{}: has no effect without data.eval or data.split.eval",
                      given(section, key)->origin, section, key));
}

}  // namespace

RunConfig load_run_config(const std::filesystem::path& path,
                          const std::vector<std::string>& overrides) {
  const auto root = read_run_file_at(path, overrides);
  load_plugins(root);
  load_sink_plugins(root);
  verify_registries();
  RunConfig config;
  read_fields(root, "", config);
  refuse_idle_settings(root, config);
  AlertRules{config.tracking.alerts};  // throws for factors that cannot be meant
  if (config.run.name.empty()) config.run.name = path.stem().string();
  return config;
}

void load_plugins_of(const std::filesystem::path& path) {
  const auto root = read_run_file_at(path, {});
  load_plugins(root);
  load_sink_plugins(root);
}

Json run_config_schema() {
  Json schema = {{"$schema", "https://json-schema.org/draft/2020-12/schema"},
                 {"title", "Lockstep run file"}};
  schema.update(ConfigDescriber::describe(RunConfig{}));
  Json properties = {
      {"extends",
       {{"description",
         "a run file to begin with, relative to this one; what this one says is merged into it"},
        {"type", "string"},
        {"default", nullptr}}}};
  properties.update(schema["properties"]);
  schema["properties"] = std::move(properties);
  // What a run file leaves out its base may have.
  schema["if"] = {{"required", {"extends"}}};
  schema["else"] = {{"required", std::move(schema["required"])}};
  schema.erase("required");
  return schema;
}

}  // namespace lockstep
