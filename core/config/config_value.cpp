#include "lockstep/config_value.h"

#include <fmt/format.h>

#include <cmath>

#include "core/lower_case.h"
#include "core/number_text.h"
#include "core/printable.h"

namespace lockstep {
namespace {

bool is_plain_scalar(const ConfigNode& node) {
  return node.kind == ConfigNode::Kind::Scalar && !node.quoted;
}

// "; write true" for text that other programs accept as true, likewise for false; otherwise empty.
std::string likely_boolean(const ConfigNode& node) {
  if (node.kind != ConfigNode::Kind::Scalar) return "";
  const auto text = lower_case(node.scalar);
  for (const auto* word : {"true", "yes", "on", "y", "1"})
    if (text == word) return "; write true";
  for (const auto* word : {"false", "no", "off", "n", "0"})
    if (text == word) return "; write false";
  return "";
}

// Parses all of `text`, which may have a leading '+'; nullopt if it is not a number or overflows.
template <class T>
std::optional<T> parse_signed(const std::string& text) {
  if (text.starts_with("+-")) return std::nullopt;
  return parse_number<T>(std::string_view(text).substr(text.starts_with('+') ? 1 : 0));
}

}  // namespace

std::string describe(const ConfigNode& node) {
  switch (node.kind) {
    case ConfigNode::Kind::Null: return "nothing";
    case ConfigNode::Kind::List: return fmt::format("a list of {}", node.items.size());
    case ConfigNode::Kind::Map: return "a map";
    case ConfigNode::Kind::Scalar: break;
  }
  const auto text = printable(node.scalar);
  return node.quoted ? fmt::format("\"{}\"", text) : fmt::format("'{}'", text);
}

Error bad_value(const ConfigNode& node, const std::string& path, const std::string& expected) {
  return config_error(
      fmt::format("{}: {}: expected {}, got {}", node.origin, path, expected, describe(node)));
}

bool ConfigValue<bool>::read(const ConfigNode& node, const std::string& path) {
  if (is_plain_scalar(node) && node.scalar == "true") return true;
  if (is_plain_scalar(node) && node.scalar == "false") return false;
  throw config_error(bad_value(node, path, "true or false").what() + likely_boolean(node));
}

int64_t ConfigValue<int64_t>::read(const ConfigNode& node, const std::string& path) {
  if (is_plain_scalar(node))
    if (const auto value = parse_signed<int64_t>(node.scalar)) return *value;
  throw bad_value(node, path, "an integer");
}

double ConfigValue<double>::read(const ConfigNode& node, const std::string& path) {
  if (is_plain_scalar(node))
    if (const auto value = parse_signed<double>(node.scalar); value && std::isfinite(*value))
      return *value;
  throw bad_value(node, path, "a number");
}

std::string ConfigValue<std::string>::read(const ConfigNode& node, const std::string& path) {
  if (node.kind != ConfigNode::Kind::Scalar) throw bad_value(node, path, "a string");
  // Most strings are paths or names passed to C interfaces, which would silently truncate them.
  if (node.scalar.find('\0') != std::string::npos)
    throw bad_value(node, path, "a string without a NUL character");
  return node.scalar;
}

}  // namespace lockstep
