// Addresses of HTTP servers, and the text of URLs.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace lockstep {

struct HttpAddress {
  bool tls = false;
  std::string host;
  int port = 80;
  std::string path;  // prefix of every request path, without a trailing "/"; may have a query
  std::string user, password;  // "user:password@" of the URL, decoded

  // "https://host:8443", without path, user and password; safe to show in messages.
  std::string origin() const;
};

// `url`: http[s]://[user[:password]@]host[:port][/path]. Throws Config. The message names the
// URL only as `what`, because it may contain secrets.
HttpAddress parse_http_address(const std::string& url, const std::string& what);

// Encodes everything except letters, digits, "-._~", and "/" if `keep_slashes`, as %XX.
std::string percent_encoded(std::string_view text, bool keep_slashes = false);
// The inverse; a "%" without two hexadecimal digits is kept.
std::string percent_decoded(std::string_view text);
// Encodes what no URL has: control characters, spaces, quotes, brackets and others, and bytes outside
// of ASCII. "%XX" is kept.
std::string url_encoded(std::string_view text);

// The number of characters of "https://host:8443" at the beginning of a URL; 0: it is not a URL.
size_t origin_length(std::string_view url);

}  // namespace lockstep
