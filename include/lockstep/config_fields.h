// Config structs. A struct lists its fields in a function fields(), which is used to read it, to
// dump it, and to generate its schema and help text.
//
// Example:
//   struct SgdConfig {
//     double lr = 0.01;
//     double momentum = 0;
//   };
//   template <class V>
//   void fields(V& v, SgdConfig& c) {
//     v("lr", c.lr, "learning rate", lockstep::above(0));
//     v("momentum", c.momentum, "momentum factor", lockstep::at_least(0), lockstep::below(1));
//   }
//
//   SgdConfig sgd_config() {
//     SgdConfig config;
//     lockstep::read_fields(lockstep::parse_config("{lr: 0.1}", "example"), "optimizer", config);
//     return config;  // lr 0.1, momentum 0
//   }
//
// A member can be a value (config_value.h), a struct with fields(), or a Part or PartList (part.h).
#pragma once

#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "lockstep/config_value.h"

namespace lockstep {

// Requirements on a value in addition to its type. Limits apply to each item of a list.
struct Constraint {
  std::optional<double> minimum, exclusive_minimum, maximum, exclusive_maximum;
  bool required = false;
  // Of each inner list, at least one setting must be enabled.
  std::vector<std::vector<std::string>> needs;

  void merge(const Constraint& other);
  // Throws Config when the value (as dumped) violates this.
  void verify(const Json& value, const ConfigNode& node, const std::string& path) const;
  void add_to_schema(Json& schema) const;
};

inline Constraint at_least(double minimum) { return {.minimum = minimum}; }
inline Constraint above(double minimum) { return {.exclusive_minimum = minimum}; }
inline Constraint at_most(double maximum) { return {.maximum = maximum}; }
inline Constraint below(double maximum) { return {.exclusive_maximum = maximum}; }
// The run file must set the field.
inline Constraint required() { return {.required = true}; }

// The value only has an effect if one of the settings is enabled; otherwise setting it is an error.
// A setting is a path from the root of the run file (in a part: from the part). It is enabled by
// any value except null, false, 0 and an empty list; "path: value" is enabled only by that value.
template <class... Paths>
Constraint needs(Paths... paths) {
  return {.needs = {{paths...}}};
}

class ConfigReader;
class ConfigDumper;
class ConfigDescriber;

// A struct with a function fields().
template <class T>
concept HasFields = requires(ConfigDumper& v, T& c) {
  fields(v, c);
};
// A member whose fields depend on its `name:` key; implemented by Part and PartList.
class AnyPart {
 public:
  virtual ~AnyPart() = default;
  // `node` is the map with `name`. Throws Config for an unknown name.
  virtual void read(const ConfigNode& node, const std::string& path) = 0;
  virtual Json dump() const = 0;
  virtual Json schema() const = 0;
};

template <class T>
concept IsPart = std::is_base_of_v<AnyPart, T>;

// Visitor that writes a struct as JSON: the values that a run uses, including defaults.
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

// Visitor that reads a map into a struct. Call finish() after visiting all fields.
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
    const auto otherwise = all.needs.empty() ? Json() : ConfigDumper::dump(member);
    if constexpr (IsPart<T>) {
      const bool unset = node->kind == ConfigNode::Kind::Null && !all.required;
      if (!unset) member.read(*node, path);
    } else if constexpr (HasFields<T>) {
      ConfigReader reader(*node, path);
      fields(reader, member);
      reader.refuse_unknown();
      needs_.insert(needs_.end(), reader.needs_.begin(), reader.needs_.end());
    } else {
      member = ConfigValue<T>::read(*node, path);
      all.verify(ConfigValue<T>::dump(member), *node, path);
    }
    if (!all.needs.empty() && ConfigDumper::dump(member) != otherwise)
      for (const auto& settings : all.needs) needs_.push_back({node->origin, path, settings});
  }

  // Accepts the key `name` without reading its value.
  void skip(const char* name) { names_.emplace_back(name); }
  // Throws Config for an unknown key, and for a value that needs() a setting that is not enabled.
  template <class T>
  void finish(const T& config) const {
    refuse_unknown();
    if (!needs_.empty()) refuse_idle(ConfigDumper::dump(config));
  }

 private:
  // A value that needs one of `settings`.
  struct Need {
    std::string origin, path;
    std::vector<std::string> settings;
  };

  void refuse_unknown() const;
  void refuse_idle(const Json& config) const;
  const ConfigNode* visit(const char* name, bool required);
  std::string path_of(const char* name) const;

  const ConfigNode& map_;
  std::string path_;
  std::vector<std::string> names_;
  std::vector<Need> needs_;
};

// Visitor that generates the JSON Schema of a struct, used for --help and --schema.
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
      if (!all.required && member.dump().is_null()) {  // no part selected
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
    add(name, schema, help, all);
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
  void add(const char* name, const Json& schema, const char* help, const Constraint& constraint);
};

// Reads `map` into `config`; fields that are missing in the map keep their values. Throws Config
// for an unknown key, a value of the wrong type, or a violated constraint.
template <class T>
void read_fields(const ConfigNode& map, const std::string& path, T& config) {
  ConfigReader reader(map, path);
  fields(reader, config);
  reader.finish(config);
}

// Like read_fields(), but ignores unknown keys and needs().
template <class T>
void read_known_fields(const ConfigNode& map, const std::string& path, T& config) {
  ConfigReader reader(map, path);
  fields(reader, config);
}

}  // namespace lockstep
