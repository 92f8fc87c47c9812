#include "core/config/config_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <yaml-cpp/yaml.h>

namespace lockstep {
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
  auto type = schema.value("type", std::string("any"));
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
        out += fmt::format("{}  name: {}  {}\n", margin, title,
                           part.value("description", std::string()));
        auto rest = part;
        rest["properties"].erase("name");
        render(rest, indent + 4, out);
      }
    } else {
      const auto given =
          field.contains("default") ? " = " + field["default"].dump() : std::string(", required");
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
