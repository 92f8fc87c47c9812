#include "tracking/event_frame.h"

#include <bit>

#include "core/crc32c.h"

namespace lockstep {

static_assert(std::endian::native == std::endian::little,
              "event logs are written in the memory order of the machine");

std::optional<Frame> FrameCursor::next() {
  if (offset_ > bytes_.size()) return std::nullopt;
  PayloadReader reader(bytes_.substr(offset_));
  uint32_t length = 0, checksum = 0;
  if (!reader.take(length) || !reader.take(checksum)) return std::nullopt;
  const auto rest = reader.rest();
  if (length == 0 || length > kMaxFrameLength || length > rest.size()) return std::nullopt;
  if (crc32c(rest.data(), length) != checksum) return std::nullopt;
  offset_ += kFrameHeadBytes + length;
  return Frame{.type = static_cast<uint8_t>(rest[0]), .payload = rest.substr(1, length - 1)};
}

}  // namespace lockstep
