// Where an HTTP request ends, so that nobody has to wait for its bytes one by one.
#pragma once

#include <cstddef>
#include <string_view>

namespace lockstep::dashboard {

struct RequestLimits {
  size_t head_bytes = 32u << 10, body_bytes = 64u << 10;
};

struct RequestExtent {
  bool is_whole = false;  // false: more of it has to come
  size_t bytes = 0;       // of head and body, where it is whole
  // The last one on its connection: it is too large, or nobody can tell where it ends (a length
  // that is no number or that is told twice, a body in chunks). `bytes` are then those of the
  // head, or all there are.
  bool is_last = false;
};

// Looks at what a client has sent so far. Any bytes are safe.
RequestExtent measure_request(std::string_view received, const RequestLimits& limits);

}  // namespace lockstep::dashboard
