// Reads, dumps and describes single values of a run file. Supported types: bool, int64_t, double,
// std::string, std::optional, std::vector, and enums with a choices() function. To support another
// type, specialize ConfigValue next to it:
//   static T read(const ConfigNode&, const std::string& path);  // throws Config: bad_value()
//   static Json dump(const T&);                                 // in a form that read() accepts
//   static Json schema();                                       // JSON Schema of that form
//
// Example (a fixed set of choices is an enum with a choices() function):
//   enum class Norm { Batch, Layer };
//   constexpr auto choices(Norm) { return std::array{"batch", "layer"}; }
//   struct BlockConfig {
//     Norm norm = Norm::Batch;
//   };
//   template <class V>
//   void fields(V& v, BlockConfig& c) {
//     v("norm", c.norm, "normalization after each layer");  // accepts batch and layer
//   }
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "lockstep/config_node.h"
#include "lockstep/error.h"

namespace lockstep {

// Preserves the order of members.
using Json = nlohmann::ordered_json;

// An error with the message "FILE:LINE: PATH: expected EXPECTED, got GIVEN".
Error bad_value(const ConfigNode& node, const std::string& path, const std::string& expected);

// The value of a node in an error message: `"text"`, `12`, `a list of 3`, `a map`, `nothing`.
std::string describe(const ConfigNode& node);

template <class T>
struct ConfigValue {
  static_assert(sizeof(T) == 0,
                "a member of this type cannot be in a run file: use bool, int64_t, double, "
                "std::string, std::optional, std::vector, an enum with choices(), or a struct with "
                "fields()");
};

template <>
struct ConfigValue<bool> {
  static bool read(const ConfigNode& node, const std::string& path);
  static Json dump(bool value) { return value; }
  static Json schema() { return {{"type", "boolean"}}; }
};

// Integers without a fraction, exponent or digit separators (1_000 is an error).
template <>
struct ConfigValue<int64_t> {
  static int64_t read(const ConfigNode& node, const std::string& path);
  static Json dump(int64_t value) { return value; }
  static Json schema() { return {{"type", "integer"}}; }
};

// Finite numbers, including exponent notation (1e-3).
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

// null, or a value.
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

// A list of values. Error messages name the element, e.g. "train.milestones[2]".
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

// An enum with a function choices() that returns the names of its values, in order. Trailing values
// may be unnamed; a run file cannot select those.
template <class E>
concept IsChoice = std::is_enum_v<E> && requires(E value) {
  choices(value);
};

// The name of `value` in a run file.
template <IsChoice E>
const char* name_of(E value) {
  return choices(value).at(static_cast<size_t>(value));
}

// The index of `node`'s text in `names`. Throws Config, suggesting the nearest name, when it is not
// one of them.
size_t read_choice(const ConfigNode& node, const std::string& path,
                   const std::vector<std::string>& names);

template <IsChoice E>
struct ConfigValue<E> {
  static E read(const ConfigNode& node, const std::string& path) {
    return static_cast<E>(read_choice(node, path, names()));
  }
  static Json dump(E value) { return name_of(value); }
  static Json schema() { return {{"type", "string"}, {"enum", names()}}; }

 private:
  static std::vector<std::string> names() {
    constexpr auto names = choices(E{});
    return {names.begin(), names.end()};
  }
};

}  // namespace lockstep
