// How one value of a run file is read, dumped and described. A type becomes a config value by
// specialising ConfigValue, next to the type:
//   static T read(const ConfigNode&, const std::string& path);  // Throws Config through
//   bad_value() static nlohmann::ordered_json dump(const T&);               // what read() accepts
//   static nlohmann::ordered_json schema();                     // JSON Schema of what read()
//   accepts
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/config/config_node.h"
#include "core/error.h"

namespace lockstep {

using Json = nlohmann::ordered_json;

// "FILE:LINE: PATH: expected EXPECTED, got GIVEN".
Error bad_value(const ConfigNode& node, const std::string& path, const std::string& expected);

// How a value is shown in an error: `"text"`, `12`, `a list of 3`, `a map`, `nothing`.
std::string describe(const ConfigNode& node);

template <class T>
struct ConfigValue;

// A member of a config struct whose fields depend on its `name:` key: a Part or a PartList.
class AnyPart {
 public:
  virtual ~AnyPart() = default;
  // `node` is the map with `name`. Throws Config for an unknown name.
  virtual void read(const ConfigNode& node, const std::string& path) = 0;
  virtual Json dump() const = 0;
  virtual Json schema() const = 0;
};

template <>
struct ConfigValue<bool> {
  static bool read(const ConfigNode& node, const std::string& path);
  static Json dump(bool value) { return value; }
  static Json schema() { return {{"type", "boolean"}}; }
};

template <>
struct ConfigValue<int64_t> {
  static int64_t read(const ConfigNode& node, const std::string& path);
  static Json dump(int64_t value) { return value; }
  static Json schema() { return {{"type", "integer"}}; }
};

template <>
struct ConfigValue<double> {
  static double read(const ConfigNode& node, const std::string& path);
  static Json dump(double value) { return value; }
  static Json schema() { return {{"type", "number"}}; }
};

template <>
struct ConfigValue<std::string> {
  static std::string read(const ConfigNode& node, const std::string& path);
  static Json dump(const std::string& value) { return value; }
  static Json schema() { return {{"type", "string"}}; }
};

template <class T>
struct ConfigValue<std::optional<T>> {
  static std::optional<T> read(const ConfigNode& node, const std::string& path) {
    if (node.kind == ConfigNode::Kind::Null) return std::nullopt;
    return ConfigValue<T>::read(node, path);
  }
  static Json dump(const std::optional<T>& value) {
    return value ? ConfigValue<T>::dump(*value) : Json(nullptr);
  }
  static Json schema() {
    return {{"anyOf", Json::array({ConfigValue<T>::schema(), Json{{"type", "null"}}})}};
  }
};

template <class T>
struct ConfigValue<std::vector<T>> {
  static std::vector<T> read(const ConfigNode& node, const std::string& path) {
    if (node.kind != ConfigNode::Kind::List) throw bad_value(node, path, "a list");
    std::vector<T> values;
    for (size_t i = 0; i < node.items.size(); ++i)
      values.push_back(ConfigValue<T>::read(node.items[i], path + "[" + std::to_string(i) + "]"));
    return values;
  }
  static Json dump(const std::vector<T>& values) {
    auto list = Json::array();
    for (const auto& value : values) list.push_back(ConfigValue<T>::dump(value));
    return list;
  }
  static Json schema() { return {{"type", "array"}, {"items", ConfigValue<T>::schema()}}; }
};

}  // namespace lockstep
