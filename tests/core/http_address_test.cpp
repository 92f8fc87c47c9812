#include <catch2/catch.hpp>

#include "core/http/http_client.h"
#include "lockstep/error.h"

using namespace lockstep;

TEST_CASE("http address: parts of a URL") {
  struct Row {
    std::string url, origin, path, user, password;
  };
  const std::vector<Row> rows = {
      {"http://host", "http://host:80", "", "", ""},
      {"https://host/", "https://host:443", "", "", ""},
      {"http://127.0.0.1:5000/a/b//", "http://127.0.0.1:5000", "/a/b", "", ""},
      {"https://[::1]:8443/x?k=v#part", "https://[::1]:8443", "/x?k=v", "", ""},
      {"http://[fe80::1]", "http://[fe80::1]:80", "", "", ""},
      {"http://ada:p%40ss:w%zz@host:1/x@y", "http://host:1", "/x@y", "ada", "p@ss:w%zz"},
      {"http://token@host?q", "http://host:80", "/?q", "token", ""},
  };
  for (const auto& row : rows) {
    CAPTURE(row.url);
    const auto address = parse_http_address(row.url, "url");
    CHECK(address.origin() == row.origin);
    CHECK(address.path == row.path);
    CHECK(address.user == row.user);
    CHECK(address.password == row.password);
  }
}

TEST_CASE("http address: an invalid address is a config error that does not contain it") {
  for (const std::string url : {"", "host:5000", "ftp://secret", "http://", "http://:80",
                                "http://secret:0", "http://secret:65536", "http://secret:8o",
                                "http://secret/ x", "http://secret\r\nX: y", "file:///secret"}) {
    CAPTURE(url);
    try {
      parse_http_address(url, "MY_URL");
      FAIL("the address was accepted");
    } catch (const Error& error) {
      const std::string text = error.what();
      CHECK(error.kind() == ErrorKind::Config);
      CHECK(text.starts_with("MY_URL: "));
      CHECK(text.find("secret") == std::string::npos);
    }
  }
}

TEST_CASE("http address: percent encoding") {
  CHECK(percent_encoded("aZ09-._~") == "aZ09-._~");
  CHECK(percent_encoded("a b/\xc3\xa4%?") == "a%20b%2F%C3%A4%25%3F");
  CHECK(percent_encoded("a b/c", true) == "a%20b/c");
}
