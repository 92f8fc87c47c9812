// Arbitrary bytes of a client: the end of a request is inside them, does not depend on how they are
// split, and is found before the buffer exceeds the limits.

#include "dashboard/api/request_extent.h"

#include <cstdint>
#include <cstdlib>
#include <string>

#include "tests/fuzz/seeds.h"

std::vector<std::string> lockstep::fuzz_seeds() {
  return {"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
          "POST /x HTTP/1.1\r\nContent-Length: 3\r\n\r\nabcGET /",
          "POST /x HTTP/1.1\r\ncontent-length:\t10 \r\n\r\nabc",
          "POST /x HTTP/1.1\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
          "POST /x HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
          "POST /x HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n",
          "\r\n\r\n",
          "\n\n"};
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const lockstep::dashboard::RequestLimits limits{.head_bytes = 128, .body_bytes = 64};
  const std::string_view received(reinterpret_cast<const char*>(data), size);
  const auto whole = lockstep::dashboard::measure_request(received, limits);
  if (!whole.is_complete && size >= limits.head_bytes + limits.body_bytes) std::abort();
  if (whole.bytes > size) std::abort();
  for (size_t i = 0; i <= size; ++i) {
    const auto part = lockstep::dashboard::measure_request(received.substr(0, i), limits);
    if (!part.is_complete) continue;
    if (!whole.is_complete || part.is_last != whole.is_last) std::abort();
    if (part.bytes != whole.bytes && i < limits.head_bytes) std::abort();
    break;
  }
  return 0;
}
