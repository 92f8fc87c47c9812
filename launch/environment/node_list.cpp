#include "launch/environment/node_list.h"

#include <algorithm>
#include <cctype>

namespace lockstep::launch {
namespace {

constexpr size_t kMaxHostNameLength = 255;

bool is_name_character(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' || c == '.' ||
         c == ':';  // an address of IPv6
}

bool is_number(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return std::isdigit(static_cast<unsigned char>(c));
  });
}

// "1-3,07" begins with "1"; leading zeros are part of the name.
std::optional<std::string_view> first_number(std::string_view ranges) {
  const auto number = ranges.substr(0, ranges.find_first_of("-,"));
  if (!is_number(number)) return std::nullopt;
  return number;
}

}  // namespace

std::optional<std::string> first_host(std::string_view list) {
  std::string host;
  for (size_t i = 0; i < list.size() && list[i] != ','; ++i) {
    if (list[i] == '[') {
      const auto end = list.find(']', i);
      if (end == std::string_view::npos) return std::nullopt;
      const auto number = first_number(list.substr(i + 1, end - i - 1));
      if (!number) return std::nullopt;
      host += *number;
      i = end;
    } else if (is_name_character(list[i])) {
      host += list[i];
    } else {
      return std::nullopt;
    }
    if (host.size() > kMaxHostNameLength) return std::nullopt;
  }
  if (host.empty() || host.front() == '-') return std::nullopt;
  return host;
}

}  // namespace lockstep::launch
