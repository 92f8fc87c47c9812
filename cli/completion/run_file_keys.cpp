#include "cli/completion/run_file_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace lockstep::cli {
namespace {

using Keys = std::map<std::string, RunFileKey>;

void add_choice(RunFileKey& key, const Json& value) {
  const auto text = value.is_string() ? value.get<std::string>() : value.dump();
  if (std::ranges::find(key.choices, text) == key.choices.end()) key.choices.push_back(text);
}

void add_keys(const Json& node, const std::string& name, Keys& keys) {
  if (!node.is_object()) return;
  for (const char* variants : {"anyOf", "oneOf", "allOf"})
    if (node.contains(variants))
      for (const auto& variant : node[variants]) add_keys(variant, name, keys);
  if (node.contains("properties")) {
    for (const auto& [child, value] : node["properties"].items())
      add_keys(value, name.empty() ? child : fmt::format("{}.{}", name, child), keys);
    return;
  }
  const auto type = node.contains("type") ? node["type"] : Json();
  if (name.empty() || type == "object") return;
  auto& key = keys[name];
  key.name = name;
  if (key.help.empty()) key.help = node.value("description", "");
  if (node.contains("const")) add_choice(key, node["const"]);
  if (node.contains("enum"))
    for (const auto& value : node["enum"]) add_choice(key, value);
  if (type == "boolean")
    for (const bool value : {false, true}) add_choice(key, value);
}

}  // namespace

std::vector<RunFileKey> keys_of_schema(const Json& schema) {
  Keys keys;
  add_keys(schema, "", keys);
  std::vector<RunFileKey> sorted;
  for (auto& [name, key] : keys) {
    std::ranges::sort(key.choices);
    sorted.push_back(std::move(key));
  }
  return sorted;
}

}  // namespace lockstep::cli
