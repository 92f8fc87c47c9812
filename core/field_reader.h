// Reads the members of a struct from untrusted JSON, verifying types and bounds. Uses the same
// fields() function as FieldWriter (core/field_writer.h).
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
  // This and all functions below throw Environment for invalid input.
  explicit FieldReader(const Json& object, FieldLimits limits = {})
      : object_(object), limits_(limits) {
    if (!object.is_object()) throw environment_error("invalid message: expected a JSON object");
  }

  template <std::integral Int>
  void operator()(const char* name, Int& number, int64_t min = std::numeric_limits<Int>::min(),
                  int64_t max = std::numeric_limits<Int>::max()) const {
    number = static_cast<Int>(bounded<int64_t>(name, member(name), min, max));
  }
  void operator()(const char* name, bool& flag) const {
    flag = checked(name, &Json::is_boolean).template get<bool>();
  }
  void operator()(const char* name, std::string& text) const {
    text = checked(name, &Json::is_string).template get<std::string>();
    if (text.size() > limits_.text_bytes) throw invalid(name);
  }
  void operator()(const char* name, double& real) const {
    real = checked(name, &Json::is_number).template get<double>();
  }
  void operator()(const char* name, Json& value) const { value = member(name); }
  void operator()(const char* name, std::vector<int>& numbers, int min, int max) const {
    for (const auto& item : array(name)) numbers.push_back(bounded<int>(name, item, min, max));
  }
  // Lists of floating-point numbers or of strings.
  template <class T>
  void operator()(const char* name, std::vector<T>& values) const {
    constexpr auto kIs = std::is_arithmetic_v<T> ? &Json::is_number : &Json::is_string;
    if (!std::ranges::all_of(array(name), kIs)) throw invalid(name);
    values = member(name).template get<std::vector<T>>();
  }
  template <class Message>
  requires std::is_aggregate_v<Message>
  void operator()(const char* name, Message& message) const { read_object(member(name), message); }
  template <class T>
  void operator()(const char* name, std::optional<T>& value, auto... bounds) const {
    (*this)(name, value.emplace(), bounds...);
  }
  template <class T>
  void given(const char* name, T& value, auto... bounds) const {
    if (has(name)) (*this)(name, value, bounds...);
  }
  // Leaves `value` unchanged if the member is missing or invalid: the writer may be another
  // version.
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
    if (values.size() != 2) throw invalid(name);
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
  static Error invalid(const char* name) {
    return environment_error(fmt::format("invalid message: '{}' is missing or invalid", name));
  }
  template <class T>
  void read_object(const Json& json, T& value) const {
    FieldReader reader(json, limits_);
    fields(reader, value);
  }
  template <class Number>
  static Number bounded(const char* name, const Json& value, Number min, Number max) {
    const bool has_type = std::integral<Number> ? value.is_number_integer() : value.is_number();
    if (!has_type || value < min || value > max) throw invalid(name);
    return value.template get<Number>();
  }
  bool has(const char* name) const {
    const auto found = object_.find(name);
    return found != object_.end() && !found->is_null();
  }
  const Json& member(const char* name) const {
    const auto found = object_.find(name);
    if (found == object_.end()) throw invalid(name);
    return *found;
  }
  const Json& checked(const char* name, bool (Json::*is)() const) const {
    const auto& value = member(name);
    if (!(value.*is)()) throw invalid(name);
    return value;
  }
  const Json& array(const char* name) const {
    const auto& value = checked(name, &Json::is_array);
    if (value.size() > limits_.list_items) throw invalid(name);
    return value;
  }

  const Json& object_;
  FieldLimits limits_;
};

}  // namespace lockstep
