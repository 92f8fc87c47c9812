#include "core/http/http_proxies.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <string_view>

#include "core/number_text.h"
#include "lockstep/error.h"

namespace lockstep {
namespace {

std::string lower(std::string_view text) {
  std::string result(text);
  for (auto& c : result)
    if (c >= 'A' && c <= 'Z') c += 'a' - 'A';
  return result;
}

// A numeric address, as IPv6.
std::optional<in6_addr> numeric_address(const std::string& text) {
  in6_addr address{};
  if (::inet_pton(AF_INET6, text.c_str(), &address) == 1) return address;
  if (::inet_pton(AF_INET6, ("::ffff:" + text).c_str(), &address) == 1) return address;
  return std::nullopt;
}

// Whether an address is in "10.0.0.0/8" or "fd00::/8", or is this one.
bool is_in_network(const in6_addr& address, const std::string& network) {
  const auto slash = network.find('/');
  const auto first = numeric_address(network.substr(0, slash));
  if (!first) return false;
  int bits = 128;
  if (slash != network.npos) {
    const int offset = network.find(':') == network.npos ? 96 : 0;
    bits = parse_number<int>(network.substr(slash + 1)).value_or(-1) + offset;
    if (bits < offset || bits > 128) return false;
  }
  for (int i = 0; i < bits; ++i) {
    const auto byte = static_cast<size_t>(i / 8);
    const auto mask = 0x80 >> (i % 8);
    if (((address.s6_addr[byte] ^ first->s6_addr[byte]) & mask) != 0) return false;
  }
  return true;
}

// Whether an entry excludes a host: itself and, if it is a name, those below it.
bool excludes(std::string entry, const std::string& host, const std::optional<in6_addr>& address) {
  if (entry == "*") return true;
  if (address) return is_in_network(*address, entry);
  if (entry.starts_with('.')) entry.erase(0, 1);
  if (entry.ends_with('.')) entry.pop_back();
  return !entry.empty() && (host == entry || host.ends_with("." + entry));
}

bool is_excluded(const std::string& list, const std::string& name) {
  auto host = lower(name);
  if (host.ends_with('.')) host.pop_back();
  const auto address = numeric_address(host);
  constexpr auto kSeparators = ", \t";
  for (auto begin = list.find_first_not_of(kSeparators); begin != list.npos;) {
    const auto end = std::min(list.find_first_of(kSeparators, begin), list.size());
    if (excludes(lower(std::string_view(list).substr(begin, end - begin)), host, address))
      return true;
    begin = list.find_first_not_of(kSeparators, end);
  }
  return false;
}

std::string first_of(const HttpVariables& variables, std::initializer_list<const char*> names) {
  for (const auto* name : names)
    if (auto value = variables(name); value && !value->empty()) return *value;
  return "";
}

}  // namespace

// As curl: http_proxy in upper case is not one, as it could be the header Proxy of a CGI request.
HttpProxies read_http_proxies(const HttpVariables& variables) {
  return {.http = first_of(variables, {"http_proxy", "all_proxy", "ALL_PROXY"}),
          .https = first_of(variables, {"https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"}),
          .excluded = first_of(variables, {"no_proxy", "NO_PROXY"})};
}

std::optional<HttpAddress> proxy_for(const HttpVariables& variables, const HttpAddress& server) {
  auto proxies = read_http_proxies(variables);
  for (const auto* own : {"localhost", "127.0.0.0/8", "::1"})
    proxies.excluded += std::string(",") + own;
  return proxy_for(proxies, server);
}

std::optional<HttpAddress> proxy_for(const HttpProxies& proxies, const HttpAddress& server) {
  const auto& url = server.tls ? proxies.https : proxies.http;
  if (url.empty() || is_excluded(proxies.excluded, server.host)) return std::nullopt;
  const std::string variable = server.tls ? "HTTPS_PROXY or ALL_PROXY" : "http_proxy or ALL_PROXY";
  const auto scheme = url.find("://");
  if (scheme != url.npos && lower(url.substr(0, scheme)) != "http")
    throw config_error(variable +
                       ": not a proxy with http; valid: http://[user:password@]host:port");
  constexpr int kUsualPort = 1080;  // of curl
  auto rest = scheme == url.npos ? url : url.substr(scheme + 3);
  rest.erase(std::min(rest.find('/'), rest.size()));
  const auto host = rest.substr(rest.rfind('@') + 1);
  const bool has_port = host.find(':', host.starts_with('[') ? host.find(']') : 0) != host.npos;
  if (!has_port) rest += ":" + std::to_string(kUsualPort);
  return parse_http_address("http://" + rest, variable);
}

}  // namespace lockstep
