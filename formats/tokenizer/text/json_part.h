// A part of a tokenizer.json, which may be any JSON; errors name the file and the part.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/error.h"

namespace lockstep::formats {

// Refers to the file's content and name, which must exist as long as the part.
class JsonPart {
 public:
  JsonPart(const nlohmann::json& value, const std::string& file) : value_(&value), file_(&file) {}

  // A Config error: "FILE: not a usable tokenizer.json: PLACE: `why`".
  Error refused(const std::string& why) const;
  // A Config error for an unsupported type, which names those that are supported.
  Error unsupported(const std::string& supported) const;

  const nlohmann::json& value() const { return *value_; }
  const std::string& file() const { return *file_; }
  bool is_null() const { return value_->is_null(); }
  // True if the part is an object with this key, whose value is not null.
  bool has(const char* key) const;
  // The value of "type"; empty if there is none.
  std::string type() const;

  // Values by key. They throw Config if the value has another type, or is missing and no other
  // value is given for that.
  std::string text(const char* key) const;
  std::string text(const char* key, const std::string& otherwise) const;
  // A text of one character.
  std::string character(const char* key) const;
  bool flag(const char* key, std::optional<bool> otherwise = std::nullopt) const;
  int64_t number(const char* key, int64_t least, int64_t greatest,
                 std::optional<int64_t> otherwise = std::nullopt) const;
  // A part that is null if the key is missing.
  JsonPart part(const char* key) const;
  // The elements of an array. Limits how deep parts are nested.
  std::vector<JsonPart> parts(const char* key) const;
  // An element of an array or an object.
  JsonPart element(const nlohmann::json& value, const std::string& name) const;

 private:
  const nlohmann::json& needed(const char* key) const;

  const nlohmann::json* value_;
  const std::string* file_;
  std::string place_;
  int depth_ = 0;
};

// The keys of a map, separated by commas.
template <class Map>
std::string names_of(const Map& map) {
  std::string names;
  for (const auto& [name, value] : map) names += (names.empty() ? "" : ", ") + name;
  return names;
}

}  // namespace lockstep::formats
