#include "core/config_fields.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>

#include "core/nearest_name.h"

namespace lockstep {

void Constraint::merge(const Constraint& other) {
  if (other.minimum) minimum = other.minimum;
  if (other.exclusive_minimum) exclusive_minimum = other.exclusive_minimum;
  if (other.maximum) maximum = other.maximum;
  if (other.exclusive_maximum) exclusive_maximum = other.exclusive_maximum;
  if (!other.choices.empty()) choices = other.choices;
  required = required || other.required;
}

void Constraint::verify(const Json& value, const ConfigNode& node, const std::string& path) const {
  if (value.is_array()) {
    for (size_t i = 0; i < value.size(); ++i)
      verify(value[i], node.items.at(i), fmt::format("{}[{}]", path, i));
    return;
  }
  if (value.is_string() && !choices.empty()) {
    const auto text = value.get<std::string>();
    if (std::find(choices.begin(), choices.end(), text) == choices.end())
      throw config_error(fmt::format("{}: {}: unknown value '{}'{}", node.origin, path, text, suggest(text, choices)));
  }
  if (!value.is_number()) return;
  const auto number = value.get<double>();
  if (minimum && number < *minimum) throw bad_value(node, path, fmt::format("at least {}", *minimum));
  if (exclusive_minimum && number <= *exclusive_minimum)
    throw bad_value(node, path, fmt::format("more than {}", *exclusive_minimum));
  if (maximum && number > *maximum) throw bad_value(node, path, fmt::format("at most {}", *maximum));
  if (exclusive_maximum && number >= *exclusive_maximum)
    throw bad_value(node, path, fmt::format("less than {}", *exclusive_maximum));
}

void Constraint::add_to_schema(Json& schema) const {
  // The limits belong to the value itself, not to the list or the option around it.
  auto* target = &schema;
  if (schema.contains("items")) target = &schema["items"];
  if (schema.contains("anyOf")) target = &schema["anyOf"][0];
  if (minimum) (*target)["minimum"] = *minimum;
  if (exclusive_minimum) (*target)["exclusiveMinimum"] = *exclusive_minimum;
  if (maximum) (*target)["maximum"] = *maximum;
  if (exclusive_maximum) (*target)["exclusiveMaximum"] = *exclusive_maximum;
  if (!choices.empty()) (*target)["enum"] = choices;
}

ConfigReader::ConfigReader(const ConfigNode& map, std::string path) : map_(map), path_(std::move(path)) {
  const bool is_map = map.kind == ConfigNode::Kind::Map || map.kind == ConfigNode::Kind::Null;
  if (!is_map) throw bad_value(map, path_.empty() ? "the run file" : path_, "a map of 'key: value'");
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
    throw config_error(
        fmt::format("{}: {}: unknown key{}", node.origin, path_of(key.c_str()), suggest(key, names_)));
  }
}

void ConfigDescriber::add(const char* name, Json schema, const char* help, bool required) {
  Json described = {{"description", help}};
  described.update(schema);
  json["properties"][name] = std::move(described);
  if (required) json["required"].push_back(name);
}

namespace {

void emit(YAML::Emitter& out, const Json& json) {
  if (json.is_object()) {
    out << YAML::BeginMap;
    for (const auto& [key, value] : json.items()) {
      out << YAML::Key << key << YAML::Value;
      emit(out, value);
    }
    out << YAML::EndMap;
  } else if (json.is_array()) {
    out << YAML::Flow << YAML::BeginSeq;
    for (const auto& item : json) emit(out, item);
    out << YAML::EndSeq;
  } else if (json.is_string()) {
    out << YAML::DoubleQuoted << json.get<std::string>() << YAML::Auto;
  } else if (json.is_null()) {
    out << YAML::Null;
  } else {
    out << json.dump();  // numbers round-trip, true, false
  }
}

std::string type_of(const Json& schema) {
  if (schema.contains("enum")) {
    std::vector<std::string> choices;
    for (const auto& choice : schema["enum"])
      choices.push_back(choice.is_string() ? choice.get<std::string>() : choice.dump());
    return fmt::format("{}", fmt::join(choices, "|"));
  }
  if (schema.contains("anyOf")) {
    std::vector<std::string> types;
    for (const auto& option : schema["anyOf"]) types.push_back(type_of(option));
    return fmt::format("{}", fmt::join(types, "|"));
  }
  const auto type = schema.value("type", std::string("any"));
  if (type == "array") return "list of " + type_of(schema["items"]);
  return type;
}

void render(const Json& schema, int indent, std::string& out) {
  for (const auto& [name, field] : schema["properties"].items()) {
    const std::string margin(static_cast<size_t>(indent), ' ');
    const auto help = field.value("description", std::string());
    if (field.contains("properties")) {
      out += fmt::format("{}{}:  {}\n", margin, name, help);
      render(field, indent + 2, out);
    } else if (field.contains("x-parts")) {
      out += fmt::format("{}{}:  {}\n", margin, name, help);
      for (const auto& part : field["x-parts"]) {
        const auto title = part["properties"]["name"]["const"].get<std::string>();
        out += fmt::format("{}  name: {}  {}\n", margin, title, part.value("description", std::string()));
        auto rest = part;
        rest["properties"].erase("name");
        render(rest, indent + 4, out);
      }
    } else {
      const auto given = field.contains("default") ? " = " + field["default"].dump() : std::string(", required");
      out += fmt::format("{}{} ({}{})  {}\n", margin, name, type_of(field), given, help);
    }
  }
}

}  // namespace

std::string to_yaml(const Json& json) {
  YAML::Emitter out;
  emit(out, json);
  return std::string(out.c_str()) + "\n";
}

std::string render_help(const Json& schema) {
  std::string out;
  render(schema, 0, out);
  return out;
}

}  // namespace lockstep
