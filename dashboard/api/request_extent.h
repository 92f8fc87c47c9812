// Finds the end of an HTTP request in received bytes.
#pragma once

#include <cstddef>
#include <string_view>

namespace lockstep::dashboard {

struct RequestLimits {
  size_t head_bytes = 32u << 10, body_bytes = 64u << 10;
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
RequestExtent measure_request(std::string_view received, const RequestLimits& limits);

}  // namespace lockstep::dashboard
