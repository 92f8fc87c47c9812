// A JSON object of a configuration file in Hugging Face's layout, with typed access. No LibTorch.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/printable.h"
#include "lockstep/error.h"

namespace lockstep::models {

// Values of other types and out of range are Config errors that name the key; null counts as missing.
class HfMap {
 public:
  using Json = nlohmann::json;

  // Throws Config. `where`: of the text, for messages.
  static Json parse(std::string_view text, const std::string& where) {
    constexpr int kMaxDepth = 20;
    const auto is_shallow = [](int depth, Json::parse_event_t, Json&) {
      return depth <= kMaxDepth;
    };
    auto json = Json::parse(text, is_shallow, /*allow_exceptions=*/false);
    if (json.is_discarded()) throw config_error(fmt::format("{}: not valid JSON", where));
    return json;
  }

  // `json` outlives this.
  HfMap(const Json& json, std::string where) : json_(json), where_(std::move(where)) {
    if (!json.is_object()) throw wrong("expected a JSON object");
  }

  Error wrong(const std::string& problem) const {
    return config_error(fmt::format("{}: {}", where_, problem));
  }
  bool has(const char* key) const { return json_.contains(key) && !json_.at(key).is_null(); }

  int64_t size(const char* key, std::optional<int64_t> fallback = std::nullopt,
               int64_t min = 1) const {
    constexpr int64_t kMaxSize = int64_t{1} << 31;
    if (!has(key) && fallback) return *fallback;
    const auto& value = at(key);
    if (!value.is_number_integer() || value.get<double>() < static_cast<double>(min) ||
        value.get<double>() > static_cast<double>(kMaxSize))
      throw wrong(fmt::format("'{}' is {}, expected an integer from {} to {}", key, shown(value),
                              min, kMaxSize));
    return value.get<int64_t>();
  }

  double number(const char* key, std::optional<double> fallback = std::nullopt) const {
    if (!has(key) && fallback) return *fallback;
    const auto& value = at(key);
    if (!value.is_number() || !std::isfinite(value.get<double>()))
      throw wrong(fmt::format("'{}' is {}, expected a number", key, shown(value)));
    return value.get<double>();
  }
  std::optional<double> optional_number(const char* key) const {
    return has(key) ? std::optional(number(key)) : std::nullopt;
  }

  bool flag(const char* key, bool fallback) const {
    if (!has(key)) return fallback;
    if (!at(key).is_boolean())
      throw wrong(fmt::format("'{}' is {}, expected true or false", key, shown(at(key))));
    return at(key).get<bool>();
  }

  std::string text(const char* key, std::optional<std::string> fallback = std::nullopt) const {
    if (!has(key) && fallback) return *fallback;
    if (!at(key).is_string())
      throw wrong(fmt::format("'{}' is {}, expected a string", key, shown(at(key))));
    return at(key).get<std::string>();
  }

  // Empty if there is none.
  std::vector<std::string> texts(const char* key) const {
    constexpr size_t kMaxTexts = 10000;
    std::vector<std::string> list;
    if (!has(key)) return list;
    const auto& values = at(key);
    bool is_valid = values.is_array() && values.size() <= kMaxTexts;
    for (size_t i = 0; is_valid && i < values.size(); ++i) {
      is_valid = values[i].is_string();
      if (is_valid) list.push_back(values[i].get<std::string>());
    }
    if (!is_valid)
      throw wrong(fmt::format("'{}' is {}, expected a list of strings", key, shown(values)));
    return list;
  }

  HfMap map(const char* key) const { return {at(key), fmt::format("{}: {}", where_, key)}; }

  const Json& at(const char* key) const {
    if (!has(key)) throw wrong(fmt::format("'{}' is missing", key));
    return json_.at(key);
  }

 private:
  static std::string shown(const Json& value) { return printable(value.dump(), 100); }

  const Json& json_;
  std::string where_;
};

}  // namespace lockstep::models
