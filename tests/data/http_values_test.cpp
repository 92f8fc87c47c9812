#include "formats/store/http_values.h"

#include <catch2/catch.hpp>

#include "core/http/http_client.h"

using namespace lockstep::formats;

TEST_CASE("http values: addresses of redirects") {
  struct Row {
    const char *location, *url;
  };
  for (const auto& [location, url] : {
           Row{"https://other:1/x?y=a%2Bb#z", "https://other:1/x?y=a%2Bb"},
           {"//other/x", "https://other/x"},
           {"/x/../y", "https://host:8443/y"},
           {"x", "https://host:8443/a/x"},
           {"../x?y=../z", "https://host:8443/x?y=../z"},
           {"../../../x/.", "https://host:8443/x/"},
           {"?y", "https://host:8443/a/b?y"},
           {"/x y\"\xc3\xa4", "https://host:8443/x%20y%22%C3%A4"},
           {"ftp://other/x", ""},
           {"mailto:x", ""},
           {"https://", ""},
           {"#z", ""},
       }) {
    CAPTURE(location);
    CHECK(resolved_url("https://host:8443/a/b?c=d/e", location) == url);
  }
  CHECK(resolved_url("http://host", "x") == "http://host/x");
}

TEST_CASE("http values: ranges") {
  const auto range = parse_content_range("bytes 5-9/10");
  REQUIRE(range);
  CHECK((range->first == 5 && range->last == 9 && range->size == 10));
  CHECK(parse_content_range("bytes */7")->size == 7);
  for (const auto* text : {"", "bytes", "bytes 0-9/*", "bytes 0-10/10", "bytes 3-2/10",
                           "bytes -1-2/10", "items 0-1/2", "bytes 0-1/99999999999999999999"}) {
    CAPTURE(text);
    CHECK(!parse_content_range(text));
  }
}

TEST_CASE("http values: links, dates and tags") {
  CHECK(next_link("<https://h/?a=1,2;3>; rel=\"next\"") == "https://h/?a=1,2;3");
  CHECK(next_link("</first>; rel=\"first\", </next>; title=x; rel=next") == "/next");
  CHECK(next_link("</x>; rel=\"prev\"").empty());
  CHECK(next_link("</x").empty());
  CHECK(lockstep::seconds_of_http_date("Thu, 01 Jan 1970 00:01:00 GMT") == 60);
  CHECK(lockstep::seconds_of_http_date("yesterday") == 0);
  CHECK(is_strong_tag("\"a\""));
  CHECK(!is_strong_tag("W/\"a\""));
}
