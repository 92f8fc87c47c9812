#include "core/config/config_fields.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/config/nearest_name.h"
#include "core/printable.h"

namespace lockstep {

ConfigReader::ConfigReader(const ConfigNode& map, std::string path)
    : map_(map), path_(std::move(path)) {
  const bool is_map = map.kind == ConfigNode::Kind::Map || map.kind == ConfigNode::Kind::Null;
  if (is_map) return;
  const bool lacks_space =
      map.kind == ConfigNode::Kind::Scalar && map.scalar.find(':') != std::string::npos;
  throw bad_value(
      map, path_.empty() ? "the run file" : path_,
      lacks_space ? "a map of 'key: value', with a space behind ':'" : "a map of 'key: value'");
}

std::string ConfigReader::path_of(const char* name) const {
  return path_.empty() ? name : path_ + "." + name;
}

const ConfigNode* ConfigReader::visit(const char* name, bool required) {
  names_.emplace_back(name);
  const auto* node = map_.find(name);
  if (!node && required) {
    const auto where = map_.origin.empty() ? "" : map_.origin + ": ";
    throw config_error(fmt::format("{}{}: is required", where, path_of(name)));
  }
  return node;
}

void ConfigReader::finish() const {
  for (const auto& [key, node] : map_.members) {
    if (std::find(names_.begin(), names_.end(), key) != names_.end()) continue;
    if (const auto colon = key.find(':');
        colon != std::string::npos &&
        std::find(names_.begin(), names_.end(), key.substr(0, colon)) != names_.end())
      throw config_error(fmt::format("{}: {}: there must be a space behind '{}:'", node.origin,
                                     path_of(printable(key).c_str()), key.substr(0, colon)));
    throw config_error(fmt::format("{}: {}: unknown key{}", node.origin,
                                   path_of(printable(key).c_str()), suggest(key, names_)));
  }
}

void ConfigDescriber::add(const char* name, const Json& schema, const char* help, bool required) {
  Json described = {{"description", help}};
  described.update(schema);
  json["properties"][name] = std::move(described);
  if (required) json["required"].push_back(name);
}

}  // namespace lockstep
