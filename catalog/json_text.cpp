#include "catalog/json_text.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>

namespace lockstep::catalog {
namespace {

void add_leaves_of(const Json& json, const std::string& path, std::map<std::string, Json>& leaves) {
  if (!json.is_object() || json.empty()) {
    if (!path.empty()) leaves[path] = json;
    return;
  }
  for (const auto& [key, value] : json.items())
    add_leaves_of(value, path.empty() ? key : fmt::format("{}.{}", path, key), leaves);
}

}  // namespace

void append_number(std::string& text, double value) {
  if (std::isnan(value)) {
    text += "\"nan\"";
  } else if (std::isinf(value)) {
    text += value > 0 ? "\"inf\"" : "\"-inf\"";
  } else {
    std::array<char, 32> digits;
    text.append(digits.data(), std::to_chars(digits.data(), digits.end(), value).ptr);
  }
}

void append_numbers(std::string& text, std::span<const double> values) {
  text += '[';
  for (size_t i = 0; i < values.size(); ++i) {
    if (i > 0) text += ',';
    append_number(text, values[i]);
  }
  text += ']';
}

void append_numbers_or_null(std::string& text, std::span<const double> values) {
  text += '[';
  for (size_t i = 0; i < values.size(); ++i) {
    if (i > 0) text += ',';
    if (std::isnan(values[i]))
      text += "null";
    else
      append_number(text, values[i]);
  }
  text += ']';
}

void append_text(std::string& text, std::string_view value) {
  text += Json(std::string(value)).dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json number_value(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}

Json finite_value(const Json& json) {
  if (json.is_number_float()) return number_value(json.get<double>());
  if (!json.is_structured()) return json;
  auto copy = json;
  for (auto& member : copy) member = finite_value(member);
  return copy;
}

std::map<std::string, Json> leaves_of(const Json& json) {
  std::map<std::string, Json> leaves;
  add_leaves_of(json, "", leaves);
  return leaves;
}

std::string to_text(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace lockstep::catalog
