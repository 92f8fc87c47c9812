#include "lockstep/config_fields.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/config/nearest_name.h"
#include "core/printable.h"

namespace lockstep {
namespace {

// Whether `setting` is enabled in `section`, the dumped section `path` of a run file. Returns true
// if it belongs to another section, which is not available here.
bool may_be_on(std::string setting, const Json& section, const std::string& path) {
  if (!path.empty() && setting.starts_with(path + ".")) setting.erase(0, path.size() + 1);
  const auto colon = setting.find(": ");
  auto pointer = "/" + setting.substr(0, colon);
  std::ranges::replace(pointer, '.', '/');
  const Json::json_pointer location(pointer);
  if (!section.contains(location)) return true;
  const auto& value = section.at(location);
  if (colon == std::string::npos) return !value.empty() && value != false && value != 0;
  const auto expected = setting.substr(colon + 2);
  return value == expected || value.dump() == expected;
}

}  // namespace

ConfigReader::ConfigReader(const ConfigNode& map, std::string path)
    : map_(map), path_(std::move(path)) {
  const bool is_map = map.kind == ConfigNode::Kind::Map || map.kind == ConfigNode::Kind::Null;
  if (is_map) return;
  const bool lacks_space =
      map.kind == ConfigNode::Kind::Scalar && map.scalar.find(':') != std::string::npos;
  throw bad_value(
      map, path_.empty() ? "the run file" : path_,
      lacks_space ? "a map of 'key: value', with a space after ':'" : "a map of 'key: value'");
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

void ConfigReader::refuse_unknown() const {
  for (const auto& [key, node] : map_.members) {
    if (std::find(names_.begin(), names_.end(), key) != names_.end()) continue;
    if (const auto colon = key.find(':');
        colon != std::string::npos &&
        std::find(names_.begin(), names_.end(), key.substr(0, colon)) != names_.end())
      throw config_error(fmt::format("{}: {}: expected a space after '{}:'", node.origin,
                                     path_of(printable(key).c_str()), key.substr(0, colon)));
    throw config_error(fmt::format("{}: {}: unknown key{}", node.origin,
                                   path_of(printable(key).c_str()), suggest(key, names_)));
  }
}

void ConfigReader::refuse_idle(const Json& config) const {
  for (const auto& need : needs_)
    if (std::ranges::none_of(need.settings, [&](const std::string& setting) {
          return may_be_on(setting, config, path_);
        }))
      throw config_error(fmt::format("{}: {}: has no effect without {}", need.origin, need.path,
                                     fmt::join(need.settings, " or ")));
}

// Needed settings are described, but not required by the schema: a base run file may set them.
void ConfigDescriber::add(const char* name, const Json& schema, const char* help,
                          const Constraint& constraint) {
  std::string description = help;
  for (const auto& settings : constraint.needs)
    description += fmt::format("; needs {}", fmt::join(settings, " or "));
  Json described = {{"description", description}};
  described.update(schema);
  json["properties"][name] = std::move(described);
  if (constraint.required) json["required"].push_back(name);
}

}  // namespace lockstep
