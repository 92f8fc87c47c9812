// Reads the members of a struct from JSON that comes from outside, by the list with which a
// FieldWriter wrote them, each with its type and bounds.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "lockstep/error.h"

namespace lockstep {

struct FieldLimits {
  size_t text_bytes = SIZE_MAX, list_items = SIZE_MAX;
};

template <class Json>
class FieldReader {
 public:
  static constexpr bool kWrites = false;
  // Throws Environment, here and below.
  explicit FieldReader(const Json& object, FieldLimits limits = {})
      : object_(object), limits_(limits) {
    if (!object.is_object()) throw environment_error("a message with something that is no object");
  }

  template <std::integral Int>
  void operator()(const char* name, Int& number, int64_t least = std::numeric_limits<Int>::min(),
                  int64_t most = std::numeric_limits<Int>::max()) const {
    number = static_cast<Int>(bounded<int64_t>(name, member(name), least, most));
  }
  void operator()(const char* name, bool& flag) const {
    flag = checked(name, &Json::is_boolean).template get<bool>();
  }
  void operator()(const char* name, std::string& text) const {
    text = checked(name, &Json::is_string).template get<std::string>();
    if (text.size() > limits_.text_bytes) throw wrong(name);
  }
  void operator()(const char* name, double& real) const {
    real = checked(name, &Json::is_number).template get<double>();
  }
  void operator()(const char* name, Json& value) const { value = member(name); }
  void operator()(const char* name, std::vector<int>& numbers, int least, int most) const {
    for (const auto& item : array(name)) numbers.push_back(bounded<int>(name, item, least, most));
  }
  // Of real numbers, or of texts.
  template <class T>
  void operator()(const char* name, std::vector<T>& values) const {
    constexpr auto kIs = std::is_arithmetic_v<T> ? &Json::is_number : &Json::is_string;
    if (!std::ranges::all_of(array(name), kIs)) throw wrong(name);
    values = member(name).template get<std::vector<T>>();
  }
  template <class Message>
    requires std::is_aggregate_v<Message>
  void operator()(const char* name, Message& message) const {
    read_object(member(name), message);
  }
  template <class T>
  void operator()(const char* name, std::optional<T>& value, auto... bounds) const {
    (*this)(name, value.emplace(), bounds...);
  }
  template <class T>
  void given(const char* name, T& value, auto... bounds) const {
    if (has(name)) (*this)(name, value, bounds...);
  }
  // What is not there, or not so, stays as it is: of a writer that may be of another version.
  template <class T>
  void if_readable(const char* name, T& value) const {
    if (!has(name)) return;
    try {
      T read{};
      (*this)(name, read);
      value = std::move(read);
    } catch (const Error&) {
    }
  }
  void binary(const char* name, std::string& bytes) const {
    const auto& read = checked(name, &Json::is_binary).get_binary();
    bytes.assign(read.begin(), read.end());
  }
  template <class Number>
  void pair(const char* name, Number& a, Number& b) const {
    const auto& values = array(name);
    if (values.size() != 2) throw wrong(name);
    a = bounded<Number>(name, values[0], 0, std::numeric_limits<Number>::max());
    b = bounded<Number>(name, values[1], 0, std::numeric_limits<Number>::max());
  }
  template <class T>
  void list(const char* name, std::vector<T>& items) const {
    for (const auto& item : array(name)) read_object(item, items.emplace_back());
  }
  template <class T>
  void list_of_readable(const char* name, std::vector<T>& items) const {
    for (const auto& item : array(name)) {
      try {
        read_object(item, items.emplace_back());
      } catch (const Error&) {
        items.pop_back();
      }
    }
  }

 private:
  static Error wrong(const char* name) {
    return environment_error(fmt::format("a message with a missing or wrong '{}'", name));
  }
  template <class T>
  void read_object(const Json& json, T& value) const {
    FieldReader reader(json, limits_);
    fields(reader, value);
  }
  template <class Number>
  static Number bounded(const char* name, const Json& value, Number least, Number most) {
    const bool is_right = std::integral<Number> ? value.is_number_integer() : value.is_number();
    if (!is_right || value < least || value > most) throw wrong(name);
    return value.template get<Number>();
  }
  bool has(const char* name) const {
    const auto found = object_.find(name);
    return found != object_.end() && !found->is_null();
  }
  const Json& member(const char* name) const {
    const auto found = object_.find(name);
    if (found == object_.end()) throw wrong(name);
    return *found;
  }
  const Json& checked(const char* name, bool (Json::*is)() const) const {
    const auto& value = member(name);
    if (!(value.*is)()) throw wrong(name);
    return value;
  }
  const Json& array(const char* name) const {
    const auto& value = checked(name, &Json::is_array);
    if (value.size() > limits_.list_items) throw wrong(name);
    return value;
  }

  const Json& object_;
  FieldLimits limits_;
};

}  // namespace lockstep
