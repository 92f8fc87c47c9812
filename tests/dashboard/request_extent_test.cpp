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

TEST_CASE("request: it is whole with its last byte, however many came at once") {
  const std::string request = "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello";
  for (size_t i = 0; i < request.size(); ++i) CHECK_FALSE(extent(request.substr(0, i)).is_whole);
  for (const std::string behind : {"", "GET / HTTP/1.1\r\n\r\n"}) {
    const auto found = extent(request + behind);
    CHECK(found.is_whole);
    CHECK(found.bytes == request.size());
    CHECK_FALSE(found.is_last);
  }
}

TEST_CASE("request: names of headers ignore case, values the space around them") {
  const std::string head = "POST /x HTTP/1.1\r\ncontent-LENGTH: \t3 \r\n\r\n";
  CHECK_FALSE(extent(head + "ab").is_whole);
  CHECK(extent(head + "abc").bytes == head.size() + 3);
  const std::string other = "GET / HTTP/1.1\r\nX-Content-Length: 3\r\n\r\n";
  CHECK(extent(other).bytes == other.size());
}

TEST_CASE("request: where nobody can tell the end, it is the connection's last") {
  for (const char* line : {"Content-Length: 11", "Content-Length: -1", "Content-Length: 3x",
                           "Content-Length: ", "Content-Length: 99999999999999999999",
                           "Content-Length: 3\r\nContent-Length: 3", "Transfer-Encoding: chunked",
                           "Content-Length: 3\r\nTransfer-Encoding: chunked"}) {
    const auto head = std::string("POST /x HTTP/1.1\r\n") + line + "\r\n\r\n";
    INFO(line);
    const auto found = extent(head + "abc");
    CHECK(found.is_whole);
    CHECK(found.is_last);
    CHECK(found.bytes == head.size());
  }
}

TEST_CASE("request: a head without an end is not waited for") {
  CHECK_FALSE(extent(std::string(199, 'x')).is_whole);
  const auto found = extent(std::string(200, 'x'));
  CHECK(found.is_whole);
  CHECK(found.is_last);
}
