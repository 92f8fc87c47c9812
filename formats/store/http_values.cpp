#include "formats/store/http_values.h"

#include <algorithm>

#include "core/http/http_address.h"
#include "core/number_text.h"
#include "core/trimmed.h"

namespace lockstep::formats {
namespace {

// Of a path without a query: "/a/./b/../c" -> "/a/c" (RFC 3986, section 5.2.4).
std::string without_dots(std::string_view path) {
  std::string result;
  while (!path.empty()) {
    const auto end = std::min(path.find('/', 1), path.size());
    const auto part = path.substr(0, end);  // with its leading slash
    path.remove_prefix(end);
    if (part == "/..")
      result.erase(std::min(result.rfind('/'), result.size()));
    else if (part != "/.")
      result += part;
    if (path.empty() && (part == "/.." || part == "/.")) result += '/';
  }
  return result;
}

std::optional<int64_t> parse_size(std::string_view text) {
  const auto value = parse_number<int64_t>(text);
  return value && *value >= 0 ? value : std::nullopt;
}

}  // namespace

std::optional<ContentRange> parse_content_range(std::string_view text) {
  constexpr std::string_view kUnit = "bytes ";
  if (!text.starts_with(kUnit)) return std::nullopt;
  text.remove_prefix(kUnit.size());
  const auto slash = text.find('/');
  if (slash == text.npos) return std::nullopt;
  const auto size = parse_size(text.substr(slash + 1));
  if (!size) return std::nullopt;
  const auto range = text.substr(0, slash);
  if (range == "*") return ContentRange{.size = *size};
  const auto dash = range.find('-');
  if (dash == range.npos) return std::nullopt;
  const auto first = parse_size(range.substr(0, dash)), last = parse_size(range.substr(dash + 1));
  if (!first || !last || *first > *last || *last >= *size) return std::nullopt;
  return ContentRange{*first, *last, *size};
}

std::string resolved_url(const std::string& url, std::string_view location) {
  const auto address = url_encoded(location.substr(0, location.find('#')));
  if (address.empty()) return {};
  if (origin_length(address) > 0) return address;
  const auto origin = origin_length(url);
  if (origin == 0) return {};
  if (address.starts_with("//")) {
    const auto whole = url.substr(0, url.find(':') + 1) + address;
    return origin_length(whole) > 0 ? whole : "";
  }
  // "name:" is a scheme that is not supported.
  if (address.find(':') < address.find_first_of("/?")) return {};
  const auto query_of_url = std::min(url.find_first_of("?#", origin), url.size());
  if (address.starts_with('?')) return url.substr(0, query_of_url) + address;
  const auto query = std::min(address.find('?'), address.size());
  auto path = address.substr(0, query);
  if (!path.starts_with('/')) {
    const auto folder = url.substr(origin, query_of_url - origin);
    const auto slash = folder.rfind('/');
    path = (slash == folder.npos ? "/" : folder.substr(0, slash + 1)) + path;
  }
  return url.substr(0, origin) + without_dots(path) + address.substr(query);
}

std::string next_link(std::string_view text) {
  while (!text.empty()) {
    const auto open = text.find('<');
    const auto close = text.find('>', open == text.npos ? text.size() : open);
    if (close == text.npos) return {};
    const auto address = text.substr(open + 1, close - open - 1);
    text.remove_prefix(close + 1);
    auto parameters = text.substr(0, text.find('<'));
    text.remove_prefix(parameters.size());
    while (!parameters.empty()) {
      const auto end = std::min(parameters.find_first_of(";,"), parameters.size());
      const auto parameter = trimmed(parameters.substr(0, end), " \t");
      if (parameter == "rel=\"next\"" || parameter == "rel=next") return std::string(address);
      parameters.remove_prefix(std::min(end + 1, parameters.size()));
    }
  }
  return {};
}

bool is_strong_tag(std::string_view tag) {
  return tag.size() >= 2 && tag.starts_with('"') && tag.ends_with('"');
}

}  // namespace lockstep::formats
