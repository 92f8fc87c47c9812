// Reads the members of a message, each with its type and bounds.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "core/error.h"

namespace lockstep {

class MessageFields {
 public:
  explicit MessageFields(const nlohmann::json& object) : object_(object) {
    if (!object.is_object()) throw environment_error("a message with something that is no object");
  }

  int64_t integer(const char* name, int64_t least, int64_t most) const {
    const auto& value = member(name);
    if (!value.is_number_integer() || value < least || value > most) throw wrong(name);
    return value.get<int64_t>();
  }
  int number(const char* name, int least, int most) const {
    return static_cast<int>(integer(name, least, most));
  }
  bool flag(const char* name) const {
    const auto& value = member(name);
    if (!value.is_boolean()) throw wrong(name);
    return value.get<bool>();
  }
  std::string text(const char* name) const {
    const auto& value = member(name);
    if (!value.is_string() || value.get_ref<const std::string&>().size() > kLongestText)
      throw wrong(name);
    return value.get<std::string>();
  }
  double real(const char* name) const {
    const auto& value = member(name);
    if (!value.is_number()) throw wrong(name);
    return value.get<double>();
  }
  // An array.
  const nlohmann::json& list(const char* name) const {
    const auto& value = member(name);
    if (!value.is_array() || value.size() > kLongestList) throw wrong(name);
    return value;
  }
  const nlohmann::json& member(const char* name) const {
    const auto found = object_.find(name);
    if (found == object_.end()) throw wrong(name);
    return *found;
  }
  bool has(const char* name) const {
    const auto found = object_.find(name);
    return found != object_.end() && !found->is_null();
  }
  template <class Number>
  std::vector<Number> numbers(const char* name, Number least, Number most) const {
    std::vector<Number> numbers;
    for (const auto& value : list(name)) {
      const bool fits = std::is_integral_v<Number> ? value.is_number_integer() : value.is_number();
      if (!fits || value < least || value > most) throw wrong(name);
      numbers.push_back(value.template get<Number>());
    }
    return numbers;
  }
  // Of a peer that may be of another version: what is not there, or not so, is left out.
  int number_or_zero(const char* name) const {
    const auto found = object_.find(name);
    const bool is_int = found != object_.end() && found->is_number_integer() &&
                        *found >= INT32_MIN && *found <= INT32_MAX;
    return is_int ? found->get<int>() : 0;
  }
  std::string text_or_empty(const char* name) const {
    const auto found = object_.find(name);
    return found != object_.end() && found->is_string() ? found->get<std::string>() : "";
  }
  std::optional<int> optional_number(const char* name, int least, int most) const {
    return has(name) ? std::optional<int>(number(name, least, most)) : std::nullopt;
  }

 private:
  static constexpr size_t kLongestText = 64u << 10;
  static constexpr size_t kLongestList = 100'000;
  static Error wrong(const char* name) {
    return environment_error(fmt::format("a message with a missing or wrong '{}'", name));
  }

  const nlohmann::json& object_;
};

}  // namespace lockstep
