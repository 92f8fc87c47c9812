// Byte format of an event log (grammar: docs/event_log.md): a header, then frames of
//   u32 length | u32 CRC32C of type and payload | u8 type | payload
// Little endian; length = 1 + payload. The space after the last frame is reserved and zero, so a
// length of 0 marks the end. A frame that is being written has kUnfinishedFrame in its length. In
// version 2, a length with kZlibChecksum says that the checksum is CRC-32, as zlib computes it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>

namespace lockstep::tracking {

constexpr std::string_view kEventLogMagic = "LSEVENTS";
constexpr uint32_t kEventLogVersion = 1;        // as written here
constexpr uint32_t kNewestEventLogVersion = 2;  // as read here
constexpr size_t kEventLogHeaderBytes = 16;     // magic, u32 version, u32 zero
constexpr size_t kFrameHeadBytes = 8;
constexpr uint32_t kMaxFrameLength = 16u << 20;  // type and payload
constexpr uint32_t kUnfinishedFrame = 1u << 31;
// For writers that have no fast CRC-32C, such as the Python client.
constexpr uint32_t kZlibChecksum = 1u << 30;
constexpr size_t kMaxMetricNameBytes = 512;

// Stored in files: values never change and are never reused. Readers skip unknown types.
enum class FrameType : uint8_t {
  Identity =
      1,        // MessagePack of RunInfo; starts the records of a process; an End before it is void
  Config = 2,   // MessagePack of the resolved config
  Key = 3,      // u32 id, name; ids count up from 0
  Scalars = 4,  // i64 step, f64 time, f64 epoch, then (u32 key id, f64 value) up to the end
  Text = 5,     // f64 time, u8 level, line
  Rewind = 6,   // i64 step: the records that follow replace the scalars after that step
  Summary = 7,  // MessagePack map, merged into the one before
  End = 8,      // MessagePack of RunEnd
  Histogram = 9,  // MessagePack maps, as in record.h
  Image = 10,
  Table = 11,
  Alert = 12,
  Artifact = 13,
  Console = 14,    // f64 time, u32 rank, u8 stream (1 stdout, 2 stderr), line
  Heartbeat = 15,  // f64 time: the writer of this log is alive
  Continued = 16,  // u32 number, u64 end of the copies: first in a segment (event_log_segment.h)
  Clip = 17,       // MessagePack map, as in record.h
};

struct Frame {
  uint8_t type = 0;  // a FrameType, or one of a later version
  std::string_view payload;
};

// Writes a frame to `target`, which has space for kFrameHeadBytes + 1 + the payload. Its length is
// unfinished until all other bytes are written: readers ignore the frame of a process that is
// killed before that.
void write_frame(std::byte* target, FrameType type, std::string_view payload);

// The bytes of the frame that starts with `head` if its writer did not finish it, else 0.
size_t unfinished_frame_bytes(std::string_view head);

// Iterates over frames in memory. Any bytes are safe.
class FrameCursor {
 public:
  // `bytes`: a log or its first part. `offset`: the first byte of a frame, e.g. where an earlier
  // cursor stopped.
  explicit FrameCursor(std::string_view bytes, size_t offset = kEventLogHeaderBytes)
      : bytes_(bytes), offset_(offset) {}

  // The frame at offset(), or nullopt if there is no complete, valid one.
  std::optional<Frame> next();

  // The first byte after the last frame that next() returned.
  size_t offset() const { return offset_; }

 private:
  std::string_view bytes_;
  size_t offset_;
};

// Reads values from the front of a payload. take() is bounds-checked and returns false if too few
// bytes are left.
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
