// A map with user-defined keys in a run file: `fields: {image: {...}, label: {...}}`.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/printable.h"
#include "lockstep/config_fields.h"

namespace lockstep {

// In the order written. T: a value (lockstep/config_value.h) or a struct with fields().
template <class T>
using ConfigMap = std::vector<std::pair<std::string, T>>;

template <class T>
struct ConfigValue<ConfigMap<T>> {
  static ConfigMap<T> read(const ConfigNode& node, const std::string& path) {
    if (node.kind != ConfigNode::Kind::Map) throw bad_value(node, path, "a map of 'key: value'");
    ConfigMap<T> map;
    for (const auto& [key, value] : node.members)
      map.emplace_back(key, read_one(value, path + "." + printable(key)));
    return map;
  }

  static Json dump(const ConfigMap<T>& map) {
    auto json = Json::object();
    for (const auto& [key, value] : map) json[key] = ConfigDumper::dump(value);
    return json;
  }

  static Json schema() {
    Json values;
    if constexpr (HasFields<T>)
      values = ConfigDescriber::describe(T{});
    else
      values = ConfigValue<T>::schema();
    return {{"type", "object"}, {"additionalProperties", values}};
  }

 private:
  static T read_one(const ConfigNode& node, const std::string& path) {
    if constexpr (HasFields<T>) {
      T value;
      read_fields(node, path, value);
      return value;
    } else {
      return ConfigValue<T>::read(node, path);
    }
  }
};

}  // namespace lockstep
