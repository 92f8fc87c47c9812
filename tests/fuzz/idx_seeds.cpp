#include <zlib.h>

#include "tests/fuzz/seeds.h"

namespace lockstep {
namespace {

std::string gzip(const std::string& content) {
  z_stream stream{};
  if (deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK)
    return {};
  std::string out(content.size() + 128, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(content.data()));
  stream.avail_in = static_cast<uInt>(content.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

}  // namespace

std::vector<std::string> fuzz_seeds() {
  const std::string labels = std::string("\0\0\x08\x01\0\0\0\x04", 8) + "\1\2\3\4";
  const std::string images =
      std::string("\0\0\x08\x03\0\0\0\x02\0\0\0\x02\0\0\0\x03", 16) + "abcdefghijkl";
  return {labels, images, gzip(labels), gzip(images)};
}

}  // namespace lockstep
