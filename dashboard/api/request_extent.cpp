#include "dashboard/api/request_extent.h"

#include <algorithm>
#include <cctype>
#include <optional>

#include "core/number_text.h"

namespace lockstep::dashboard {
namespace {

constexpr std::string_view kLineEnd = "\r\n", kHeadEnd = "\r\n\r\n";

bool has_name(std::string_view line, std::string_view name) {
  return line.size() > name.size() && line[name.size()] == ':' &&
         std::equal(name.begin(), name.end(), line.begin(), [](char a, char b) {
           return a == std::tolower(static_cast<unsigned char>(b));
         });
}

std::optional<size_t> parse_length(std::string_view text) {
  while (text.starts_with(' ') || text.starts_with('\t')) text.remove_prefix(1);
  while (text.ends_with(' ') || text.ends_with('\t')) text.remove_suffix(1);
  return parse_number<size_t>(text);
}

// nullopt: unknown.
std::optional<size_t> body_length(std::string_view head) {
  constexpr std::string_view kLength = "content-length", kCoding = "transfer-encoding";
  std::optional<size_t> length;
  while (!head.empty()) {
    const auto end = std::min(head.find(kLineEnd), head.size());
    const auto line = head.substr(0, end);
    head.remove_prefix(std::min(end + kLineEnd.size(), head.size()));
    if (has_name(line, kCoding)) return std::nullopt;
    if (!has_name(line, kLength)) continue;
    const auto declared = parse_length(line.substr(kLength.size() + 1));
    if (length || !declared) return std::nullopt;
    length = declared;
  }
  return length.value_or(0);
}

}  // namespace

RequestExtent measure_request(std::string_view received, const RequestLimits& limits) {
  const auto end = received.substr(0, limits.head_bytes).find(kHeadEnd);
  if (end == std::string_view::npos) {
    if (received.size() < limits.head_bytes) return {};
    return {.is_complete = true, .bytes = received.size(), .is_last = true};
  }
  const auto head = end + kHeadEnd.size();
  const auto body = body_length(received.substr(0, head));
  if (!body || *body > limits.body_bytes)
    return {.is_complete = true, .bytes = head, .is_last = true};
  if (received.size() - head < *body) return {};
  return {.is_complete = true, .bytes = head + *body};
}

}  // namespace lockstep::dashboard
