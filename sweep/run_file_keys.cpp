#include "sweep/run_file_keys.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <string_view>

#include "core/config/nearest_name.h"

namespace lockstep::sweep {
namespace {

using Schemas = std::vector<const Json*>;

// The names of a part that the run file or the space can select at `path`.
std::set<std::string> names_at(const std::string& path, const Json& run, const Space& space) {
  std::set<std::string> names;
  const auto add = [&](const Json& json) {
    if (json.is_string()) names.insert(json.get<std::string>());
  };
  const auto* base = member_of(run, path);
  const auto* named = space.find(path + ".name");
  if (named) std::ranges::for_each(named->choices, add);
  const auto* chosen = space.find(path);
  if (chosen)
    for (const auto& choice : chosen->choices)
      if (choice.is_object() && choice.contains("name")) add(choice["name"]);
  if (!named && !chosen && base && base->is_object() && base->contains("name"))
    add(base->at("name"));
  return names;
}

// The objects that a schema permits: itself, or its alternatives of the selected parts.
void add_objects(const Json& schema, const std::set<std::string>& names, Schemas& objects) {
  if (!schema.contains("anyOf")) return objects.push_back(&schema);
  Schemas all, selected;
  for (const auto& each : schema["anyOf"]) {
    if (!each.contains("properties")) continue;
    all.push_back(&each);
    const auto& properties = each["properties"];
    const auto name = properties.contains("name") ? properties["name"].value("const", "") : "";
    if (names.contains(name)) selected.push_back(&each);
  }
  const auto& permitted = selected.empty() ? all : selected;
  objects.insert(objects.end(), permitted.begin(), permitted.end());
}

bool is_type(const Json& value, const std::string& type) {
  if (type == "integer") return value.is_number_integer();
  if (type == "number") return value.is_number();
  if (type == "string") return value.is_string();
  if (type == "boolean") return value.is_boolean();
  if (type == "array") return value.is_array();
  if (type == "object") return value.is_object();
  return type != "null" || value.is_null();
}

// Whether a scalar or a list fits; the content of maps is not compared.
bool fits(const Json& value, const Json& schema) {
  if (schema.contains("anyOf") &&
      std::ranges::none_of(schema["anyOf"], [&](const Json& each) { return fits(value, each); }))
    return false;
  if (value.is_object()) return true;
  if (schema.contains("type")) {
    const auto types = schema["type"].is_array() ? schema["type"] : Json::array({schema["type"]});
    if (std::ranges::none_of(types, [&](const Json& type) { return is_type(value, type); }))
      return false;
  }
  if (schema.contains("const") && schema["const"] != value) return false;
  if (schema.contains("enum") && std::ranges::count(schema["enum"], value) == 0) return false;
  if (value.is_array() && schema.contains("items"))
    return std::ranges::all_of(value,
                               [&](const Json& item) { return fits(item, schema["items"]); });
  if (!value.is_number()) return true;
  const auto number = value.get<double>();
  const auto limit = [&](const char* name) { return schema.value(name, number); };
  return number >= limit("minimum") && number <= limit("maximum") &&
         (!schema.contains("exclusiveMinimum") || number > limit("exclusiveMinimum")) &&
         (!schema.contains("exclusiveMaximum") || number < limit("exclusiveMaximum"));
}

// Adds the full keys below `path` whose last part is `last`, in quotes.
void find_keys(const std::string& last, const Json& schema, const std::string& path,
               const Space& space, const Json& run, std::set<std::string>& keys) {
  Schemas objects;
  add_objects(schema, names_at(path, run, space), objects);
  for (const auto* object : objects) {
    if (!object->contains("properties")) continue;
    for (const auto& [name, value] : (*object)["properties"].items()) {
      const auto key = path.empty() ? name : path + "." + name;
      if (name == last) keys.insert(fmt::format("'{}'", key));
      find_keys(last, value, key, space, run, keys);
    }
  }
}

// Appended to an error: the keys that end like `key`, if they are few, or the one of `valid` that is
// nearest to the part of `key` that is unknown.
std::string suggest_keys(const std::string& key, const std::string& unknown,
                         const std::vector<std::string>& valid, const Space& space,
                         const Json& schema, const Json& run) {
  constexpr size_t kMaxSuggested = 3;
  std::set<std::string> keys;
  find_keys(key.substr(key.rfind('.') + 1), schema, "", space, run, keys);
  if (keys.empty() || keys.size() > kMaxSuggested) return suggest(unknown, valid);
  return fmt::format("; did you mean {}?", fmt::join(keys, " or "));
}

// The schemas of the value at `key`. Empty: anything.
Schemas schemas_of(const Parameter& parameter, const Space& space, const Json& schema,
                   const Json& run) {
  const auto& key = parameter.key;
  Schemas current = {&schema};
  std::string path;
  for (size_t begin = 0; begin < key.size();) {
    const auto end = std::min(key.find('.', begin), key.size());
    const auto part = key.substr(begin, end - begin);
    Schemas objects, next;
    for (const auto* each : current) add_objects(*each, names_at(path, run, space), objects);
    std::vector<std::string> valid;
    for (const auto* object : objects) {
      if (!object->contains("properties")) return {};
      for (const auto& [name, value] : (*object)["properties"].items()) {
        if (name == part) next.push_back(&value);
        if (std::ranges::count(valid, name) == 0) valid.push_back(name);
      }
    }
    path += (path.empty() ? "" : ".") + part;
    if (next.empty() && run.contains("plugins") && !run["plugins"].empty()) return {};
    if (next.empty())
      throw config_error(fmt::format("{}: space.{}: the run file has no key '{}'{}",
                                     parameter.origin, key, path,
                                     suggest_keys(key, part, valid, space, schema, run)));
    current = next;
    begin = end + 1;
  }
  return current;
}

// Keys that the run file sets for a part stay when the part's name is chosen: each part must have them.
void verify_kept_keys(const Parameter& parameter, const Space& space, const Json& schema,
                      const Json& run) {
  constexpr std::string_view kSuffix = ".name";
  if (!parameter.is_choice() || !parameter.key.ends_with(kSuffix)) return;
  const auto path = parameter.key.substr(0, parameter.key.size() - kSuffix.size());
  const auto* base = member_of(run, path);
  if (!base || !base->is_object() || space.find(path)) return;
  auto part = parameter;
  part.key = path;
  for (const auto* each : schemas_of(part, space, schema, run)) {
    for (const auto& choice : parameter.choices) {
      Schemas objects;
      if (each->contains("anyOf") && choice.is_string())
        add_objects(*each, {choice.get<std::string>()}, objects);
      if (objects.size() != 1) continue;  // of a plugin
      for (const auto& [key, value] : base->items())
        if (key != "name" && !objects.front()->at("properties").contains(key))
          throw config_error(
              fmt::format("{}: space.{}: {} has no key '{}', which the run file sets; choose whole "
                          "maps instead: "
                          "{}: {{choice: [{{name: {}}}, ...]}}",
                          parameter.origin, parameter.key, choice.dump(), key, path,
                          choice.get<std::string>()));
    }
  }
}

}  // namespace

void verify_keys(const Space& space, const Json& schema, const Json& run) {
  for (const auto& parameter : space.parameters) {
    verify_kept_keys(parameter, space, schema, run);
    const auto schemas = schemas_of(parameter, space, schema, run);
    if (schemas.empty()) continue;
    auto values = parameter.choices;
    if (!parameter.is_choice()) values = {parameter.at(0), parameter.at(1)};
    for (const auto& value : values)
      if (std::ranges::none_of(schemas, [&](const Json* each) { return fits(value, *each); }))
        throw config_error(fmt::format("{}: space.{}: the run file cannot have the value {}",
                                       parameter.origin, parameter.key, value.dump()));
  }
}

}  // namespace lockstep::sweep
