// One list of fields per config struct, beside the struct, drives everything that is done with it:
//
//   struct SgdConfig {
//     double lr = 0.01;
//     double momentum = 0;
//   };
//   template <class V> void fields(V& v, SgdConfig& c) {
//     v("lr", c.lr, "learning rate", above(0));
//     v("momentum", c.momentum, "momentum factor", at_least(0));
//   }
//
// Visitors: ConfigReader (YAML to struct, strict), ConfigDumper (struct to JSON: what a run
// resolved to) and ConfigDescriber (JSON Schema; help and reference pages are rendered from it). A
// member may be a value (core/config/config_value.h), a struct with fields of its own, or a Part
// (core/config/part.h).
#pragma once

#include <string>
#include <type_traits>
#include <vector>

#include "core/config/config_value.h"
#include "core/config/constraint.h"

namespace lockstep {

class ConfigReader;
class ConfigDumper;
class ConfigDescriber;

template <class T>
concept HasFields = requires(ConfigDumper& v, T& c) {
  fields(v, c);
};
template <class T>
concept IsPart = std::is_base_of_v<AnyPart, T>;

// Reads a map into a struct. finish() must be called when all fields were visited: it reports
// unknown keys.
class ConfigReader {
 public:
  ConfigReader(const ConfigNode& map, std::string path);

  template <class T, class... Constraints>
  void operator()(const char* name, T& member, const char* /*help*/,
                  const Constraints&... constraints) {
    Constraint all;
    (all.merge(constraints), ...);
    const auto* node = visit(name, all.required);
    if (!node) return;
    const auto path = path_of(name);
    if constexpr (IsPart<T>) {
      const bool unset = node->kind == ConfigNode::Kind::Null && !all.required;
      if (!unset) member.read(*node, path);
    } else if constexpr (HasFields<T>) {
      ConfigReader reader(*node, path);
      fields(reader, member);
      reader.finish();
    } else {
      member = ConfigValue<T>::read(*node, path);
      all.verify(ConfigValue<T>::dump(member), *node, path);
    }
  }

  // Marks `name` as known without reading it.
  void skip(const char* name) { names_.emplace_back(name); }
  void finish() const;

 private:
  const ConfigNode* visit(const char* name, bool required);
  std::string path_of(const char* name) const;

  const ConfigNode& map_;
  std::string path_;
  std::vector<std::string> names_;
};

class ConfigDumper {
 public:
  template <class T, class... Constraints>
  void operator()(const char* name, const T& member, const char* /*help*/, const Constraints&...) {
    json[name] = dump(member);
  }

  template <class T>
  static Json dump(const T& member) {
    if constexpr (IsPart<T>) {
      return member.dump();
    } else if constexpr (HasFields<T>) {
      ConfigDumper dumper;
      auto copy = member;
      fields(dumper, copy);
      return dumper.json;
    } else {
      return ConfigValue<T>::dump(member);
    }
  }

  Json json = Json::object();
};

class ConfigDescriber {
 public:
  template <class T, class... Constraints>
  void operator()(const char* name, const T& member, const char* help,
                  const Constraints&... constraints) {
    Constraint all;
    (all.merge(constraints), ...);
    Json schema;
    if constexpr (IsPart<T>) {
      schema = member.schema();
      if (!all.required && member.dump().is_null()) {  // nothing chosen
        schema["type"] = {"object", "null"};
        schema["anyOf"].push_back({{"type", "null"}});
      }
    } else if constexpr (HasFields<T>) {
      schema = describe(member);
    } else {
      schema = ConfigValue<T>::schema();
      if (!all.required) schema["default"] = ConfigValue<T>::dump(member);
      all.add_to_schema(schema);
    }
    add(name, schema, help, all.required);
  }

  template <class T>
  static Json describe(const T& member) {
    ConfigDescriber describer;
    auto copy = member;
    fields(describer, copy);
    return describer.json;
  }

  Json json = {{"type", "object"}, {"properties", Json::object()}, {"additionalProperties", false}};

 private:
  void add(const char* name, const Json& schema, const char* help, bool required);
};

// Reads `map` into `config`, strictly. Throws Config.
template <class T>
void read_fields(const ConfigNode& map, const std::string& path, T& config) {
  ConfigReader reader(map, path);
  fields(reader, config);
  reader.finish();
}

}  // namespace lockstep
