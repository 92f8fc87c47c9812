#include "models/hf/hf_map.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "core/printable.h"

namespace lockstep::models {
namespace {

using HfJson = nlohmann::ordered_json;

constexpr int64_t kMaxHfSize = int64_t{1} << 31;
constexpr int kMaxHfDepth = 20;

std::string shown_json(const HfJson& value) { return printable(value.dump(), 100); }

}  // namespace

HfJson parse_hf_json(std::string_view text, const std::string& where) {
  const auto is_shallow = [](int depth, HfJson::parse_event_t, HfJson&) {
    return depth <= kMaxHfDepth;
  };
  auto json = HfJson::parse(text, is_shallow, /*allow_exceptions=*/false);
  if (json.is_discarded()) throw config_error(fmt::format("{}: not valid JSON", where));
  return json;
}

bool set_fp32_weights(HfJson& config) {
  const auto before = config;
  config.erase("torch_dtype");  // the name before transformers 5
  config["dtype"] = "float32";
  return config != before;
}

HfMap::HfMap(const HfJson& json, std::string where) : json_(json), where_(std::move(where)) {
  if (!json.is_object()) throw wrong("expected a JSON object");
}

Error HfMap::wrong(const std::string& problem) const {
  return config_error(fmt::format("{}: {}", where_, problem));
}

int64_t HfMap::size(const char* key, std::optional<int64_t> fallback, int64_t min) const {
  if (!has(key) && fallback) return *fallback;
  const auto& value = at(key);
  if (!value.is_number_integer() || value.get<double>() < static_cast<double>(min) ||
      value.get<double>() > static_cast<double>(kMaxHfSize))
    throw wrong(fmt::format("'{}' is {}, expected an integer from {} to {}", key, shown_json(value),
                            min, kMaxHfSize));
  return value.get<int64_t>();
}

double HfMap::number(const char* key, std::optional<double> fallback) const {
  if (!has(key) && fallback) return *fallback;
  const auto& value = at(key);
  if (!value.is_number() || !std::isfinite(value.get<double>()))
    throw wrong(fmt::format("'{}' is {}, expected a number", key, shown_json(value)));
  return value.get<double>();
}

std::optional<double> HfMap::optional_number(const char* key) const {
  return has(key) ? std::optional(number(key)) : std::nullopt;
}

bool HfMap::flag(const char* key, bool fallback) const {
  if (!has(key)) return fallback;
  if (!at(key).is_boolean())
    throw wrong(fmt::format("'{}' is {}, expected true or false", key, shown_json(at(key))));
  return at(key).get<bool>();
}

std::string HfMap::text(const char* key, std::optional<std::string> fallback) const {
  if (!has(key) && fallback) return *fallback;
  if (!at(key).is_string())
    throw wrong(fmt::format("'{}' is {}, expected a string", key, shown_json(at(key))));
  return at(key).get<std::string>();
}

std::vector<std::string> HfMap::texts(const char* key) const {
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
    throw wrong(fmt::format("'{}' is {}, expected a list of strings", key, shown_json(values)));
  return list;
}

HfMap HfMap::map(const char* key) const { return {at(key), fmt::format("{}: {}", where_, key)}; }

const HfJson& HfMap::at(const char* key) const {
  if (!has(key)) throw wrong(fmt::format("'{}' is missing", key));
  return json_.at(key);
}

}  // namespace lockstep::models
