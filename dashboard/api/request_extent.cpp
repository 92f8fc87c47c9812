#include "dashboard/api/request_extent.h"

#include <algorithm>
#include <cctype>
#include <optional>

#include "core/number_text.h"
#include "core/trimmed.h"

namespace lockstep::dashboard {
namespace {

constexpr std::string_view kLineEnd = "\r\n", kHeadEnd = "\r\n\r\n", kSpace = " \t";

bool has_name(std::string_view line, std::string_view name) {
  return line.size() > name.size() && line[name.size()] == ':' &&
         std::equal(name.begin(), name.end(), line.begin(), [](char a, char b) {
           return a == std::tolower(static_cast<unsigned char>(b));
         });
}

std::optional<size_t> parse_length(std::string_view text) {
  return parse_number<size_t>(trimmed(text, kSpace));
}

// The next line of `head`, which is shortened.
std::string_view take_line(std::string_view& head) {
  const auto end = std::min(head.find(kLineEnd), head.size());
  const auto line = head.substr(0, end);
  head.remove_prefix(std::min(end + kLineEnd.size(), head.size()));
  return line;
}

// nullopt: unknown.
std::optional<size_t> body_length(std::string_view head) {
  constexpr std::string_view kLength = "content-length", kCoding = "transfer-encoding";
  std::optional<size_t> length;
  while (!head.empty()) {
    const auto line = take_line(head);
    if (has_name(line, kCoding)) return std::nullopt;
    if (!has_name(line, kLength)) continue;
    const auto declared = parse_length(line.substr(kLength.size() + 1));
    if (length || !declared) return std::nullopt;
    length = declared;
  }
  return length.value_or(0);
}

}  // namespace

std::string_view header_value(std::string_view head, std::string_view name) {
  while (!head.empty()) {
    const auto line = take_line(head);
    if (has_name(line, name)) return trimmed(line.substr(name.size() + 1), kSpace);
  }
  return {};
}

RequestExtent measure_request(std::string_view received, const RequestLimits& limits) {
  const auto end = received.substr(0, limits.head_bytes).find(kHeadEnd);
  if (end == std::string_view::npos) {
    if (received.size() < limits.head_bytes) return {};
    return {.is_complete = true, .bytes = received.size(), .is_last = true};
  }
  const auto head = end + kHeadEnd.size();
  const auto body = body_length(received.substr(0, head));
  const bool is_accepted =
      body && (*body <= limits.body_bytes ||
               (*body <= limits.large_body_bytes && limits.may_be_large(received.substr(0, head))));
  if (!is_accepted) return {.is_complete = true, .bytes = head, .is_last = true};
  if (received.size() - head < *body) return {};
  return {.is_complete = true, .bytes = head + *body};
}

}  // namespace lockstep::dashboard
