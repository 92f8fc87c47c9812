#include "dashboard/api/request_extent.h"

#include <catch2/catch.hpp>
#include <string>

using namespace lockstep;
using namespace lockstep::dashboard;

namespace {

RequestExtent extent(const std::string& received) {
  return measure_request(received, {.head_bytes = 200, .body_bytes = 10});
}

}  // namespace

TEST_CASE("request: complete with its last byte, regardless of how the bytes arrive") {
  const std::string request = "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello";
  for (size_t i = 0; i < request.size(); ++i) CHECK_FALSE(extent(request.substr(0, i)).is_complete);
  for (const std::string next : {"", "GET / HTTP/1.1\r\n\r\n"}) {
    const auto found = extent(request + next);
    CHECK(found.is_complete);
    CHECK(found.bytes == request.size());
    CHECK_FALSE(found.is_last);
  }
}

TEST_CASE("request: header names are case-insensitive, and whitespace around values is ignored") {
  const std::string head = "POST /x HTTP/1.1\r\ncontent-LENGTH: \t3 \r\n\r\n";
  CHECK_FALSE(extent(head + "ab").is_complete);
  CHECK(extent(head + "abc").bytes == head.size() + 3);
  const std::string other = "GET / HTTP/1.1\r\nX-Content-Length: 3\r\n\r\n";
  CHECK(extent(other).bytes == other.size());
}

TEST_CASE("request: with an unknown end, it is the last of its connection") {
  for (const char* line : {"Content-Length: 11", "Content-Length: -1", "Content-Length: 3x",
                           "Content-Length: ", "Content-Length: 99999999999999999999",
                           "Content-Length: 3\r\nContent-Length: 3", "Transfer-Encoding: chunked",
                           "Content-Length: 3\r\nTransfer-Encoding: chunked"}) {
    const auto head = std::string("POST /x HTTP/1.1\r\n") + line + "\r\n\r\n";
    INFO(line);
    const auto found = extent(head + "abc");
    CHECK(found.is_complete);
    CHECK(found.is_last);
    CHECK(found.bytes == head.size());
  }
}

TEST_CASE("request: a larger body is read only after certain heads") {
  RequestLimits limits{.head_bytes = 200, .body_bytes = 10, .large_body_bytes = 20};
  limits.may_be_large = [](std::string_view head) { return header_value(head, "x-key") == "a b"; };
  const auto is_read = [&](const std::string& key, size_t length) {
    const auto head = "POST /x HTTP/1.1\r\nX-KEY: " + key +
                      "\r\nContent-Length: " + std::to_string(length) + "\r\n\r\n";
    return measure_request(head + std::string(length, 'x'), limits).bytes == head.size() + length;
  };
  CHECK(is_read("a", 10));
  CHECK(is_read(" a b\t", 20));
  CHECK_FALSE(is_read("a b", 21));
  CHECK_FALSE(is_read("a", 11));
}

TEST_CASE("request: a head without an end is complete at the size limit") {
  CHECK_FALSE(extent(std::string(199, 'x')).is_complete);
  const auto found = extent(std::string(200, 'x'));
  CHECK(found.is_complete);
  CHECK(found.is_last);
}
