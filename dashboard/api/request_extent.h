// Finds the end of an HTTP request in received bytes.
#pragma once

#include <cstddef>
#include <functional>
#include <string_view>

namespace lockstep::dashboard {

struct RequestLimits {
  size_t head_bytes = 32u << 10, body_bytes = 64u << 10;
  // For the requests with such a head; not called for smaller bodies.
  size_t large_body_bytes = 0;
  std::function<bool(std::string_view head)> may_be_large;
};

struct RequestExtent {
  bool is_complete = false;  // false: more bytes are required
  size_t bytes = 0;          // of head and body, if complete
  // The last request of its connection: it is too large, or its end is unknown (an invalid or
  // repeated Content-Length, a chunked body). `bytes` is then the size of the head, or of all
  // received bytes.
  bool is_last = false;
};

// `received`: untrusted bytes, from the start of a request.
// The value of the first line of that name, without surrounding spaces. `name`: lower case.
std::string_view header_value(std::string_view head, std::string_view name);

RequestExtent measure_request(std::string_view received, const RequestLimits& limits);

}  // namespace lockstep::dashboard
