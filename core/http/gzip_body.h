// Compresses bodies of HTTP messages.
#pragma once

#include <string>
#include <string_view>

namespace lockstep {

// `body` as one gzip member, at zlib's fastest level (Content-Encoding: gzip).
std::string gzip_body(std::string_view body);

}  // namespace lockstep
