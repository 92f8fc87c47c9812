#include "core/http/http_address.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "core/number_text.h"
#include "lockstep/error.h"

namespace lockstep {
namespace {

// Moves "user:password@" into `address` and returns the rest.
std::string_view extract_user(std::string_view authority, HttpAddress& address) {
  const auto at = authority.rfind('@');
  if (at == std::string_view::npos) return authority;
  const auto user = authority.substr(0, at);
  const auto colon = user.find(':');
  address.user = percent_decoded(user.substr(0, colon));
  if (colon != std::string_view::npos) address.password = percent_decoded(user.substr(colon + 1));
  return authority.substr(at + 1);
}

// Encodes the characters that `is_kept` rejects as %XX.
template <class IsKept>
std::string encoded_unless(std::string_view text, const IsKept& is_kept) {
  std::string encoded;
  for (const char c : text)
    encoded +=
        is_kept(c) ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  return encoded;
}

}  // namespace

std::string percent_decoded(std::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    unsigned value = 0;
    const auto* digits = text.data() + i + 1;
    if (text[i] == '%' && i + 2 < text.size() &&
        std::from_chars(digits, digits + 2, value, 16).ptr == digits + 2) {
      decoded += static_cast<char>(value);
      i += 2;
    } else {
      decoded += text[i];
    }
  }
  return decoded;
}

std::string HttpAddress::origin() const {
  const bool is_v6 = host.find(':') != std::string::npos;
  return fmt::format("{}://{}:{}", tls ? "https" : "http", is_v6 ? "[" + host + "]" : host, port);
}

HttpAddress parse_http_address(const std::string& url, const std::string& what) {
  const auto bad = [&](const char* why) {
    return config_error(fmt::format("{}: {}; expected http[s]://host[:port][/path]", what, why));
  };
  HttpAddress address;
  std::string_view rest = url;
  address.tls = rest.starts_with("https://");
  if (!address.tls && !rest.starts_with("http://")) throw bad("neither http:// nor https://");
  if (std::ranges::any_of(rest, [](unsigned char c) { return c <= ' ' || c == 0x7f; }))
    throw bad("contains a space or a control character");
  rest.remove_prefix(address.tls ? 8 : 7);
  const auto slash = std::min(rest.find_first_of("/?#"), rest.size());
  address.path = rest.substr(slash, rest.find('#') - slash);
  while (address.path.ends_with('/')) address.path.pop_back();
  if (address.path.starts_with('?')) address.path.insert(0, "/");

  auto host = extract_user(rest.substr(0, slash), address);
  address.port = address.tls ? 443 : 80;
  const auto colon = host.rfind(':');
  if (colon != std::string_view::npos && host.find(']', colon) == std::string_view::npos) {
    address.port = parse_number<int>(host.substr(colon + 1)).value_or(0);
    if (address.port < 1 || address.port > 65535)
      throw bad("the port is not a number from 1 to 65535");
    host = host.substr(0, colon);
  }
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  if (host.empty()) throw bad("the host is missing");
  address.host = host;
  return address;
}

std::string percent_encoded(std::string_view text, bool keep_slashes) {
  return encoded_unless(text, [keep_slashes](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '.' || c == '_' || c == '~' || (keep_slashes && c == '/');
  });
}

std::string url_encoded(std::string_view text) {
  static constexpr std::string_view kNotInUrls = "\"<>\\^`{|}";
  return encoded_unless(
      text, [](char c) { return c > ' ' && c < 0x7f && kNotInUrls.find(c) == kNotInUrls.npos; });
}

size_t origin_length(std::string_view url) {
  for (const std::string_view scheme : {"https://", "http://"}) {
    if (!url.starts_with(scheme)) continue;
    const auto end = std::min(url.find_first_of("/?#", scheme.size()), url.size());
    return end > scheme.size() ? end : 0;
  }
  return 0;
}

}  // namespace lockstep
