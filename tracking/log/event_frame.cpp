#include "tracking/log/event_frame.h"

#include <zlib.h>

#include <atomic>
#include <bit>

#include "core/system/crc32c.h"

namespace lockstep::tracking {

namespace {

uint32_t zlib_checksum(std::string_view bytes) {
  const auto* data = reinterpret_cast<const Bytef*>(bytes.data());
  return static_cast<uint32_t>(::crc32(0, data, static_cast<uInt>(bytes.size())));
}

}  // namespace

static_assert(std::endian::native == std::endian::little,
              "event logs are written in the memory order of the machine");

void write_frame(std::byte* target, FrameType type, std::string_view payload) {
  const auto length = static_cast<uint32_t>(1 + payload.size());
  const auto unfinished = length | kUnfinishedFrame;
  std::memcpy(target, &unfinished, sizeof(unfinished));
  std::atomic_thread_fence(std::memory_order_release);
  auto* body = target + kFrameHeadBytes;
  body[0] = static_cast<std::byte>(type);
  if (!payload.empty()) std::memcpy(body + 1, payload.data(), payload.size());
  const auto checksum = crc32c(body, length);
  std::memcpy(target + sizeof(length), &checksum, sizeof(checksum));
  std::atomic_thread_fence(std::memory_order_release);
  std::memcpy(target, &length, sizeof(length));
}

size_t unfinished_frame_bytes(std::string_view head) {
  uint32_t length = 0;
  if (!PayloadReader(head).take(length) || (length & kUnfinishedFrame) == 0) return 0;
  length &= ~(kUnfinishedFrame | kZlibChecksum);
  return length > 0 && length <= kMaxFrameLength ? kFrameHeadBytes + length : 0;
}

std::optional<Frame> FrameCursor::next() {
  if (offset_ > bytes_.size()) return std::nullopt;
  PayloadReader reader(bytes_.substr(offset_));
  uint32_t length = 0, checksum = 0;
  if (!reader.take(length) || !reader.take(checksum)) return std::nullopt;
  const auto rest = reader.rest();
  const bool by_zlib = (length & kZlibChecksum) != 0;
  length &= ~kZlibChecksum;
  if (length == 0 || length > kMaxFrameLength || length > rest.size()) return std::nullopt;
  const auto found = by_zlib ? zlib_checksum(rest.substr(0, length)) : crc32c(rest.data(), length);
  if (found != checksum) return std::nullopt;
  offset_ += kFrameHeadBytes + length;
  return Frame{.type = static_cast<uint8_t>(rest[0]), .payload = rest.substr(1, length - 1)};
}

}  // namespace lockstep::tracking
