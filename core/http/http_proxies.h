// Which requests go through a proxy, as curl decides it from variables of the environment.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "core/http/http_address.h"

namespace lockstep {

// The values of http_proxy, of https_proxy or HTTPS_PROXY, and of no_proxy or NO_PROXY: without the
// first two, those of all_proxy or ALL_PROXY. Users and passwords are secrets.
struct HttpProxies {
  std::string http, https;  // of requests to http:// and https:// addresses; empty: none
  std::string excluded;     // "host.org, .net, 10.0.0.0/8", or "*" for all hosts
  bool operator==(const HttpProxies&) const = default;
};

// `variables`: the value of one, or nullopt.
using HttpVariables = std::function<std::optional<std::string>(const std::string& name)>;
HttpProxies read_http_proxies(const HttpVariables& variables);

// nullopt: no proxy. Throws Config if the one for this server is not an http:// address; the message
// has no secrets.
std::optional<HttpAddress> proxy_for(const HttpProxies& proxies, const HttpAddress& server);

// The same with those of the environment, and none for "localhost" and loopback addresses.
std::optional<HttpAddress> proxy_for(const HttpVariables& variables, const HttpAddress& server);

}  // namespace lockstep
