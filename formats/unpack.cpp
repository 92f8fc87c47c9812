#include "formats/unpack.h"

#include <fmt/format.h>
#include <zstd.h>

#include <algorithm>
#include <memory>

#include "formats/gzip.h"
#include "lockstep/error.h"

namespace lockstep::formats {
namespace {

constexpr size_t kPieceOfText = 1u << 20;
constexpr uint64_t kAnyFileMayHold = uint64_t{64} << 20;
constexpr int kMaxZstdWindow = 31;  // bits: what zstd --long=31 writes

bool is_zstd(std::span<const uint8_t> bytes) {
  constexpr uint8_t kMagic[] = {0x28, 0xB5, 0x2F, 0xFD};
  return bytes.size() >= 4 && std::equal(std::begin(kMagic), std::end(kMagic), bytes.begin());
}

struct FreedStream {
  void operator()(ZSTD_DStream* stream) const { ZSTD_freeDStream(stream); }
};

// Appends space for a piece to `text` and returns it.
std::span<uint8_t> next_piece(std::string& text, uint64_t limit, const std::string& name) {
  const auto at = text.size();
  if (at > limit)
    throw config_error(fmt::format(
        "{}: decompresses to more than {} MiB, which is implausible for a file of its size; "
        "decompress it first",
        name, limit >> 20));
  text.resize(at + kPieceOfText);
  return {reinterpret_cast<uint8_t*>(text.data()) + at, kPieceOfText};
}

std::string unpacked_gzip(std::span<const uint8_t> bytes, uint64_t limit, const std::string& name) {
  GzipReader reader(bytes, name);
  std::string text;
  for (;;) {
    const auto at = text.size();
    const auto count = reader.read(next_piece(text, limit, name));
    text.resize(at + count);
    if (count < kPieceOfText) return text;
  }
}

std::string unpacked_zstd(std::span<const uint8_t> bytes, uint64_t limit, const std::string& name) {
  const std::unique_ptr<ZSTD_DStream, FreedStream> stream(ZSTD_createDStream());
  if (!stream ||
      ZSTD_isError(ZSTD_DCtx_setParameter(stream.get(), ZSTD_d_windowLogMax, kMaxZstdWindow)))
    throw environment_error(name + ": cannot allocate a zstd decoder");
  ZSTD_inBuffer in{bytes.data(), bytes.size(), 0};
  std::string text;
  for (;;) {
    const auto at = text.size();
    const auto piece = next_piece(text, limit, name);
    ZSTD_outBuffer out{piece.data(), piece.size(), 0};
    const auto left = ZSTD_decompressStream(stream.get(), &out, &in);
    text.resize(at + out.pos);
    if (ZSTD_isError(left))
      throw config_error(fmt::format("{}: corrupt zstd file: {}", name, ZSTD_getErrorName(left)));
    const bool read_all = in.pos == in.size && out.pos < out.size;
    if (left == 0 && in.pos == in.size) return text;  // a file may contain several frames
    if (left != 0 && read_all)
      throw config_error(
          fmt::format("{}: truncated zstd file: it ends inside the compressed data", name));
  }
}

}  // namespace

bool is_compressed(std::span<const uint8_t> bytes) { return is_gzip(bytes) || is_zstd(bytes); }

std::string unpacked(std::span<const uint8_t> bytes, const std::string& name) {
  const auto limit = std::max(kAnyFileMayHold, gzip_capacity(bytes.size()));
  return is_gzip(bytes) ? unpacked_gzip(bytes, limit, name) : unpacked_zstd(bytes, limit, name);
}

}  // namespace lockstep::formats
