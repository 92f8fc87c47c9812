// Values of HTTP headers, which a server sent: any bytes. Only files of formats/ include this.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep::formats {

// "bytes 0-99/1000", or "bytes */1000" for a range that does not exist.
struct ContentRange {
  int64_t first = 0, last = -1;  // without a range: 0 and -1
  int64_t size = 0;              // of the whole file
};
// nullopt: another text, or an unknown size.
std::optional<ContentRange> parse_content_range(std::string_view text);

// The address that `location`, a URL or a part of one, names on the page `url`, without "#...".
// Empty: it is not an http or https address.
std::string resolved_url(const std::string& url, std::string_view location);

// The address of rel="next" in a Link header: "<https://host/path>; rel="next", <...>; rel=...".
// Empty: there is none.
std::string next_link(std::string_view text);

// Whether a tag can be compared byte by byte: it is neither empty nor weak.
bool is_strong_tag(std::string_view tag);

}  // namespace lockstep::formats
