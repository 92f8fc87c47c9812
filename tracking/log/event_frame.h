// The byte format of an event log (docs/event_log.md has its grammar): a header, then frames of
//   u32 length | u32 CRC32C of type and payload | u8 type | payload        (little endian; length =
//   1 + payload)
// The space behind the last frame is reserved and zero, so a length of 0 is the end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>

namespace lockstep::tracking {

constexpr std::string_view kEventLogMagic = "LSEVENTS";
constexpr uint32_t kEventLogVersion = 1;
constexpr size_t kEventLogHeaderBytes = 16;  // magic, u32 version, u32 zero
constexpr size_t kFrameHeadBytes = 8;
constexpr uint32_t kMaxFrameLength = 16u << 20;  // type and payload
constexpr size_t kMaxMetricNameBytes = 512;

// Written to files: values never change and are never reused. A reader skips types that it does not
// know.
enum class FrameType : uint8_t {
  Identity =
      1,  // MessagePack of RunInfo; a writing process begins here, and an End before it is void
  Config = 2,     // MessagePack of the resolved config
  Key = 3,        // u32 id, name; ids count up from 0
  Scalars = 4,    // i64 step, f64 time, f64 epoch, then (u32 key id, f64 value) up to the end
  Text = 5,       // f64 time, u8 level, line
  Rewind = 6,     // i64 step: what follows replaces the scalars after that step
  Summary = 7,    // MessagePack map, merged into the one before
  End = 8,        // MessagePack of RunEnd
  Histogram = 9,  // MessagePack maps, as in record.h
  Image = 10,
  Table = 11,
  Alert = 12,
  Artifact = 13,
  Console = 14,    // f64 time, u32 rank, u8 stream (1 stdout, 2 stderr), line
  Heartbeat = 15,  // f64 time: the writer of this log lives
  Continued = 16,  // u32 number, u64 end of the copies: first in a segment (event_log_segment.h)
};

struct Frame {
  uint8_t type = 0;  // a FrameType, or one of a later version
  std::string_view payload;
};

// Puts a frame at `target`, which has room for kFrameHeadBytes + 1 + the payload. The length goes
// last: a kill before it leaves a frame that does not exist yet.
void write_frame(std::byte* target, FrameType type, std::string_view payload);

// Walks over frames that lie in memory. Any bytes are safe.
class FrameCursor {
 public:
  // `bytes` are a log or its beginning; `offset` is a frame's first byte, e.g. where an earlier
  // walk stopped.
  explicit FrameCursor(std::string_view bytes, size_t offset = kEventLogHeaderBytes)
      : bytes_(bytes), offset_(offset) {}

  // The frame at offset(), or nullopt when there is no whole and undamaged one.
  std::optional<Frame> next();

  // The first byte behind the last frame that next() returned.
  size_t offset() const { return offset_; }

 private:
  std::string_view bytes_;
  size_t offset_;
};

// Takes values off the front of a payload. Every take() is bounds-checked: false means that there
// was not enough.
class PayloadReader {
 public:
  explicit PayloadReader(std::string_view payload) : rest_(payload) {}

  template <class T>
  bool take(T& value) {
    if (rest_.size() < sizeof(T)) return false;
    std::memcpy(&value, rest_.data(), sizeof(T));
    rest_.remove_prefix(sizeof(T));
    return true;
  }
  std::string_view rest() const { return rest_; }

 private:
  std::string_view rest_;
};

}  // namespace lockstep::tracking
