#include "trainer/config/run_config.h"

#include <fmt/format.h>
#include <torch/version.h>

#include "core/config/plugin.h"
#include "core/config/run_file.h"
#include "lockstep/rank_env.h"
#include "tracking/alerts/alert_rules.h"

namespace lockstep::trainer {
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

// Sinks run in the tracking agent, which has no LibTorch; the trainer loads them only to validate
// their settings.
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
  hook_registry().verify();
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
  if (config.checkpoint.keep_every && config.checkpoint.keep_every->unit == Period::Unit::Seconds)
    throw config_error(fmt::format("{}: checkpoint.keep_every: expected steps or epochs",
                                   root.find("checkpoint")->find("keep_every")->origin));
  verify_alerts(config.tracking.alerts);
  config.run.name_after(path);
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
         "a run file to start from, relative to this one; the keys of this one are merged into it"},
        {"type", "string"},
        {"default", nullptr}}}};
  properties.update(schema["properties"]);
  schema["properties"] = std::move(properties);
  // Keys missing from a run file may be set in its base.
  schema["if"] = {{"required", {"extends"}}};
  schema["else"] = {{"required", std::move(schema["required"])}};
  schema.erase("required");
  return schema;
}

}  // namespace lockstep::trainer
