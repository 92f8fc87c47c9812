#include "trainer/config/run_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/version.h>

#include <map>

#include "core/config/nearest_name.h"
#include "core/config/plugin.h"
#include "core/config/run_file.h"
#include "core/printable.h"
#include "lockstep/image_transform.h"
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
  image_transform_registry().verify();
  optimizer_registry().verify();
  schedule_registry().verify();
  hook_registry().verify();
}

const ConfigNode* member_of(const ConfigNode* map, const std::string& key) {
  return map && map->kind == ConfigNode::Kind::Map ? map->find(key) : nullptr;
}

// The keys of a section, with their schemas; of a part, those of the one that `given` selects, or of
// all.
Json keys_of(const Json& section, const ConfigNode* given) {
  if (section.contains("properties")) return section["properties"];
  Json keys = Json::object();
  if (!section.contains("x-parts") || section["type"] == "array") return keys;
  const auto* const name = member_of(given, "name");
  for (const auto& part : section["x-parts"])
    if (const auto& own = part["properties"]; !name || own["name"]["const"] == name->scalar)
      keys.update(own);
  return keys;
}

// Paths such as "train.epochs", by the number of sections in them.
using Places = std::map<int, std::vector<std::string>>;

// Adds where the sections in `keys`, and those within them, have `key`. `given`: what the run file
// has there, or null; `path`: its path, with a dot at the end.
void find_places(const std::string& key, const Json& keys, const ConfigNode* given,
                 const std::string& path, int depth, Places& places) {
  for (const auto& [name, section] : keys.items()) {
    const auto* const node = member_of(given, name);
    const auto inner = keys_of(section, node);
    if (inner.contains(key)) places[depth].push_back(fmt::format("'{}{}.{}'", path, name, key));
    find_places(key, inner, node, path + name + ".", depth + 1, places);
  }
}

// Throws Config for a key that only other sections have, such as `epochs` outside of `train`. Suggests
// those in the same section first.
void refuse_misplaced(const ConfigNode& root) {
  constexpr size_t kMaxPlaces = 3;  // more are no help
  if (root.kind != ConfigNode::Kind::Map) return;
  const auto sections = keys_of(ConfigDescriber::describe(RunConfig{}), nullptr);
  const auto verify = [&](const ConfigNode* map, const std::string& path, const Json& keys) {
    if (!map || map->kind != ConfigNode::Kind::Map) return;
    if (keys.empty()) return;  // of an unknown part
    for (const auto& [key, node] : map->members) {
      if (keys.contains(key)) continue;
      Places places;
      find_places(key, keys, map, path, 1, places);
      if (places.empty()) find_places(key, sections, &root, "", 1, places);
      if (places.empty() || places.begin()->second.size() > kMaxPlaces) continue;
      std::vector<std::string> valid;
      for (const auto& item : keys.items()) valid.push_back(item.key());
      auto& likely = places.begin()->second;
      if (const auto near = nearest_name(key, valid))
        likely.insert(likely.begin(), fmt::format("'{}'", *near));
      throw config_error(fmt::format("{}: {}{}: unknown key; did you mean {}? valid: {}",
                                     node.origin, path, printable(key), fmt::join(likely, " or "),
                                     fmt::join(valid, ", ")));
    }
  };
  verify(&root, "", sections);
  for (const auto& [name, section] : sections.items())
    verify(root.find(name), name + ".", keys_of(section, root.find(name)));
}

// Errors about keys suggest those of other sections too.
void read_sections(const ConfigNode& root, RunConfig& config) {
  try {
    read_fields(root, "", config);
  } catch (const Error&) {
    refuse_misplaced(root);
    throw;
  }
}

}  // namespace

RunConfig load_run_config(const std::filesystem::path& path,
                          const std::vector<std::string>& overrides) {
  const auto root = read_run_file_at(path, overrides);
  load_plugins(root);
  load_sink_plugins(root);
  verify_registries();
  RunConfig config;
  read_sections(root, config);
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
  verify_registries();
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
