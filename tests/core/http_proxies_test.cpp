#include "core/http/http_proxies.h"

#include <catch2/catch.hpp>

#include "core/http/http_client.h"
#include "lockstep/error.h"

using namespace lockstep;

namespace {

std::optional<HttpAddress> proxy_of(const HttpProxies& proxies, const std::string& url) {
  return proxy_for(proxies, parse_http_address(url, "url"));
}

}  // namespace

TEST_CASE("http proxies: the one of a scheme") {
  const HttpProxies proxies{
      .http = "plain:3128", .https = "http://ada:p%40ss@[::1]/x", .excluded = ""};
  const auto plain = proxy_of(proxies, "http://host");
  REQUIRE(plain);
  CHECK((plain->host == "plain" && plain->port == 3128 && plain->user.empty()));
  const auto encrypted = proxy_of(proxies, "https://host");
  REQUIRE(encrypted);
  CHECK((encrypted->host == "::1" && encrypted->port == 1080));
  CHECK((encrypted->user == "ada" && encrypted->password == "p@ss"));
  CHECK_FALSE(proxy_of({}, "https://host"));
}

TEST_CASE("http proxies: hosts without one") {
  struct Row {
    const char *excluded, *host;
    bool is_excluded;
  };
  for (const auto& [excluded, host, is_excluded] : {
           Row{"*", "host", true},
           {"host.org", "host.org", true},
           {"Host.org, other", "www.HOST.org", true},
           {".host.org", "host.org", true},
           {"x .host.org", "www.host.org", true},
           {"host.org.", "host.org", true},
           {"host.org", "myhost.org", false},
           {"10.0.0.0/8", "10.1.2.3", true},
           {"10.0.0.0/8", "11.1.2.3", false},
           {"10.1.2.3", "10.1.2.3", true},
           {"10.1.2", "10.1.2.3", false},
           {"10.0.0.0/33,10.0.0.0/x", "10.0.0.0", false},
           {"fd00::/9", "[fd12::1]", true},
           {"fd00::/9", "[fe80::1]", false},
           {"", "host", false},
           {", ,", "host", false},
       }) {
    CAPTURE(excluded, host);
    const HttpProxies proxies{.http = "http://proxy:1", .https = {}, .excluded = excluded};
    CHECK(proxy_of(proxies, std::string("http://") + host).has_value() != is_excluded);
  }
}

TEST_CASE("http proxies: those of the environment, except for this host") {
  const HttpVariables all = [](const std::string& name) -> std::optional<std::string> {
    return name == "ALL_PROXY" ? std::optional<std::string>("proxy:1") : std::nullopt;
  };
  for (const auto* url : {"http://host", "https://host"})
    CHECK(proxy_for(all, parse_http_address(url, "url")).has_value());
  for (const auto* url : {"http://localhost", "http://127.0.0.1:5", "https://[::1]"})
    CHECK_FALSE(proxy_for(all, parse_http_address(url, "url")));
}

TEST_CASE("http proxies: an invalid one is a config error without secrets") {
  for (const std::string url : {"socks5://ada:secret@host", "https://ada:secret@host",
                                "http://ada:secret@", "ada:secret@host:x"}) {
    CAPTURE(url);
    try {
      (void)proxy_of({.http = url, .https = {}, .excluded = {}}, "http://host");
      FAIL("the proxy was accepted");
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::Config);
      CHECK(std::string(error.what()).starts_with("http_proxy or ALL_PROXY: "));
      CHECK(std::string(error.what()).find("secret") == std::string::npos);
    }
  }
}

TEST_CASE("http client: pauses that a server requests") {
  CHECK(seconds_of_retry_after("5", 60) == 5);
  CHECK(seconds_of_retry_after("100000", 60) == 60);
  CHECK(seconds_of_retry_after("-1", 60) == 0);
  CHECK(seconds_of_retry_after("soon", 60) == 0);
  CHECK(seconds_of_retry_after("Wed, 25 Nov 2099 22:00:00 GMT", 60) == 60);
  CHECK(seconds_of_retry_after("Wed, 25 Nov 2020 22:00:00 GMT", 60) == 0);
}
