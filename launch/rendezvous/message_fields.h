// Reads the members of a message, each with its type and bounds.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

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
  // An array of objects or texts.
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
