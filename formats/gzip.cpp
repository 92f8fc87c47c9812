#include "formats/gzip.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <limits>

#include "lockstep/error.h"

namespace lockstep::formats {
namespace {

constexpr int kGzipFormatOnly = 16 + MAX_WBITS;
constexpr size_t kMaxPieceBytes = std::numeric_limits<uInt>::max();

}  // namespace

struct GzipReader::Stream {
  z_stream z{};
  std::span<const uint8_t> rest;  // not passed to zlib yet
  bool ended = false;

  void refill() {
    if (z.avail_in > 0 || rest.empty()) return;
    const auto piece = rest.first(std::min(rest.size(), kMaxPieceBytes));
    z.next_in = const_cast<Bytef*>(piece.data());
    z.avail_in = static_cast<uInt>(piece.size());
    rest = rest.subspan(piece.size());
  }
};

bool is_gzip(std::span<const uint8_t> bytes) {
  return bytes.size() >= 2 && bytes[0] == 0x1f && bytes[1] == 0x8b;
}

uint64_t gzip_capacity(uint64_t size) { return size * 1032; }

GzipReader::GzipReader(std::span<const uint8_t> bytes, std::string name)
    : stream_(std::make_unique<Stream>()), name_(std::move(name)) {
  stream_->rest = bytes;
  if (inflateInit2(&stream_->z, kGzipFormatOnly) != Z_OK)
    throw environment_error(fmt::format("{}: cannot initialize zlib (out of memory?)", name_));
}

GzipReader::~GzipReader() { inflateEnd(&stream_->z); }

size_t GzipReader::read(std::span<uint8_t> out) {
  auto& z = stream_->z;
  size_t filled = 0;
  while (filled < out.size() && !stream_->ended) {
    stream_->refill();
    const auto room = std::min(out.size() - filled, kMaxPieceBytes);
    z.next_out = out.data() + filled;
    z.avail_out = static_cast<uInt>(room);
    const auto status = inflate(&z, Z_NO_FLUSH);
    filled += room - z.avail_out;
    const bool exhausted = z.avail_in == 0 && stream_->rest.empty();
    if (status == Z_STREAM_END) {
      // A file may contain several concatenated gzip streams.
      stream_->ended = exhausted;
      if (!exhausted) inflateReset(&z);
    } else if (status == Z_BUF_ERROR || (status == Z_OK && exhausted && z.avail_out > 0)) {
      throw config_error(
          fmt::format("{}: truncated gzip file: it ends inside the compressed data", name_));
    } else if (status != Z_OK) {
      throw config_error(
          fmt::format("{}: corrupt gzip file: {}", name_, z.msg ? z.msg : "invalid data"));
    }
  }
  return filled;
}

}  // namespace lockstep::formats
