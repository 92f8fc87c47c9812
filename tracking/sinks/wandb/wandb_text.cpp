#include "tracking/sinks/wandb/wandb_text.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "core/printable.h"

namespace lockstep::tracking {
namespace {

constexpr size_t kWandbLongestId = 64;
constexpr size_t kWandbLongestFileName = 80;

bool is_wandb_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
}

char wandb_id_char(char c) {
  if (c >= 'A' && c <= 'Z') return static_cast<char>(c - 'A' + 'a');
  return is_wandb_word(c) ? c : '-';
}

char wandb_file_char(char c) {
  return is_wandb_word(c) || (c >= 'A' && c <= 'Z') || c == '.' ? c : '_';
}

}  // namespace

std::string wandb_text(std::string_view text) {
  std::string valid;
  for (size_t bad; (bad = find_invalid_utf8(text)) != std::string_view::npos;) {
    valid.append(text.substr(0, bad)).append("\xef\xbf\xbd");
    text.remove_prefix(bad + 1);
  }
  return valid.append(text);
}

std::string wandb_key(std::string_view name) {
  static constexpr std::array<std::string_view, 3> kTaken = {"", "step", "epoch"};
  const bool is_taken = name.starts_with('_') || std::ranges::find(kTaken, name) != kTaken.end();
  return is_taken ? "metric/" + wandb_text(name) : wandb_text(name);
}

std::string wandb_number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  return fmt::format("{}", value);
}

std::string wandb_json(const Json& value) {
  if (value.is_number_float()) return wandb_number(value.get<double>());
  if (!value.is_structured()) return value.dump(-1, ' ', false, Json::error_handler_t::replace);
  std::string text;
  for (const auto& [key, item] : value.items()) {
    if (!text.empty()) text += ',';
    if (value.is_object()) text += wandb_json(key) + ':';
    const bool is_finite = item.is_number_float() && std::isfinite(item.get<double>());
    text += is_finite ? item.dump() : wandb_json(item);
  }
  return value.is_object() ? '{' + text + '}' : '[' + text + ']';
}

std::string wandb_run_id(const std::string& id) {
  if (!id.empty() && id.size() <= kWandbLongestId && std::ranges::all_of(id, is_wandb_word))
    return id;
  const auto* bytes = reinterpret_cast<const Bytef*>(id.data());
  const auto sum = fmt::format("-{:08x}", ::crc32_z(0, bytes, id.size()));
  std::string like = id.substr(0, kWandbLongestId - sum.size());
  std::ranges::transform(like, like.begin(), wandb_id_char);
  return (like.empty() ? "run" : like) + sum;
}

std::string wandb_file_name(std::string_view name) {
  std::string safe(name.substr(0, kWandbLongestFileName));
  std::ranges::transform(safe, safe.begin(), wandb_file_char);
  return safe;
}

}  // namespace lockstep::tracking
