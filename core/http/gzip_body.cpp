#include "core/http/gzip_body.h"

#include <zlib.h>

#include "lockstep/error.h"

namespace lockstep {
namespace {

constexpr int kGzipWindow = MAX_WBITS + 16, kDefaultMemory = 8;  // 16: with a gzip header

}  // namespace

std::string gzip_body(std::string_view body) {
  z_stream stream{};
  const int init = ::deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, kGzipWindow, kDefaultMemory,
                                  Z_DEFAULT_STRATEGY);
  check(init == Z_OK, "zlib initialization failed");
  std::string compressed(::deflateBound(&stream, body.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(body.data()));
  stream.avail_in = static_cast<uInt>(body.size());
  stream.next_out = reinterpret_cast<Bytef*>(compressed.data());
  stream.avail_out = static_cast<uInt>(compressed.size());
  const int result = ::deflate(&stream, Z_FINISH);
  compressed.resize(stream.total_out);
  ::deflateEnd(&stream);
  check(result == Z_STREAM_END, "zlib compression failed");
  return compressed;
}

}  // namespace lockstep
