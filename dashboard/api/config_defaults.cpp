#include "dashboard/api/config_defaults.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace lockstep::dashboard {
namespace {

bool has_same_name(const Json& schema, const Json& value) {
  const auto* at = &schema;
  for (const char* key : {"properties", "name", "const"}) {
    if (!at->is_object() || !at->contains(key)) return false;
    at = &(*at)[key];
  }
  return value.is_object() && value.contains("name") && value["name"] == *at;
}

// Selects the alternative of `schema` that applies to `value`.
const Json& chosen_schema(const Json& schema, const Json& value) {
  for (const char* key : {"anyOf", "oneOf"}) {
    if (!schema.contains(key) || !schema[key].is_array()) continue;
    for (const auto& option : schema[key])
      if (has_same_name(option, value)) return option;
    for (const auto& option : schema[key])
      if (value.is_object() && option.is_object() && option.contains("properties") &&
          !option["properties"].contains("name"))
        return option;
  }
  return schema;  // the caller's. NOLINT(bugprone-return-const-ref-from-parameter)
}

void add_defaults(const Json& value, const Json& given, const std::string& path,
                  std::vector<std::string>& paths) {
  if (!given.is_object()) return;
  if (!path.empty() && given.contains("default") && given["default"] == value) {
    paths.push_back(path);
    return;
  }
  const auto& schema = chosen_schema(given, value);
  if (!value.is_object() || !schema.is_object() || !schema.contains("properties")) return;
  const auto& properties = schema["properties"];
  for (const auto& [key, member] : value.items())
    if (properties.is_object() && properties.contains(key))
      add_defaults(member, properties[key], path.empty() ? key : fmt::format("{}.{}", path, key),
                   paths);
}

}  // namespace

Json default_paths(const Json& config, const std::string& schema) {
  if (schema.empty()) return nullptr;
  const auto parsed = Json::parse(schema, nullptr, false);
  if (!parsed.is_object()) return nullptr;
  std::vector<std::string> paths;
  add_defaults(config, parsed, "", paths);
  std::ranges::sort(paths);
  return paths;
}

}  // namespace lockstep::dashboard
