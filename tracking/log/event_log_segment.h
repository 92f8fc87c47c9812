// A log that would grow too large goes on in further files beside it, its segments:
// rank-00000.lsev, then rank-00000.1.lsev, rank-00000.2.lsev, ... Each is an event log by itself. A
// later one begins with a `continued` frame and copies of what holds from there on
// (docs/event_log.md).
//
// A segment is begun when its magic is there, which is written last, and its copies are whole. Once
// it is begun, the segments before it are final and have their exact lengths. One that is not begun
// was left by a kill or is damaged: it is passed over, and its number is not used again.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/system/file_descriptor.h"
#include "lockstep/config_value.h"
#include "lockstep/run_info.h"

namespace lockstep::tracking {

// What is copied to the beginning of a segment.
struct LogState {
  std::optional<RunInfo> info;    // of the last writing process; `created` of the first
  Json config;                    // null when there is none
  std::vector<std::string> keys;  // by id
};

struct SegmentBeginning {
  uint32_t number = 0;
  LogState state;
  uint64_t bytes = 0;  // records of the segment's own begin here
};

struct OpenSegment {
  FileDescriptor file;  // for reading
  SegmentBeginning beginning;
};

// At most `size` bytes of an open log from `offset` on, fewer where the file ends; whatever `size`
// is, no more memory is taken than that. Throws Environment.
std::string read_log_piece(int file, uint64_t offset, size_t size);

// `number` 0 is `log` itself.
std::filesystem::path segment_path(const std::filesystem::path& log, uint32_t number);

// Whether the file begins as an event log. A segment of which next_segment() knows nothing, but
// which does, is damaged: a writer that was killed while it made one had not come to the magic.
bool has_log_magic(const std::filesystem::path& path);

// All bytes from the header to the last copy.
std::string encode_beginning(uint32_t number, const LogState& state);

// nullopt when `bytes` do not begin as a whole beginning of a later segment. Any bytes are safe.
std::optional<SegmentBeginning> decode_beginning(std::string_view bytes);

// The first begun segment behind `number`, or nullopt. Throws Environment when it cannot be read.
std::optional<OpenSegment> next_segment(const std::filesystem::path& log, uint32_t number);

}  // namespace lockstep::tracking
