// A log that reaches its size limit is continued in additional files, its segments:
// rank-00000.lsev, then rank-00000.1.lsev, rank-00000.2.lsev, ... Each is a valid event log. A
// later one starts with a `continued` frame and copies of the state that applies from there on
// (docs/event_log.md).
//
// A segment is valid once its magic, which is written last, and its copies are complete. From then
// on, the segments before it are final and have their exact lengths. An invalid one is the result
// of a kill or of corruption: it is skipped, and its number is not reused.
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

// The state copied to the start of a segment.
struct LogState {
  std::optional<RunInfo> info;    // of the last process; `created` of the first
  Json config;                    // null if there is none
  std::vector<std::string> keys;  // by id
};

struct SegmentBeginning {
  uint32_t number = 0;
  LogState state;
  uint64_t bytes = 0;  // where its new records start
};

struct OpenSegment {
  FileDescriptor file;  // for reading
  SegmentBeginning beginning;
};

// At most `size` bytes of an open log starting at `offset`; fewer at the end of the file. Never
// allocates more than the file has. Throws Environment.
std::string read_log_piece(int file, uint64_t offset, size_t size);

// `number` 0 is `log` itself.
std::filesystem::path segment_path(const std::filesystem::path& log, uint32_t number);

// Whether the file starts as an event log. A file that does, but that next_segment() does not
// return, is corrupt: a writer that was killed while creating a segment had not written the magic.
bool has_log_magic(const std::filesystem::path& path);

// All bytes from the header to the end of the copies.
std::string encode_beginning(uint32_t number, const LogState& state);

// nullopt if `bytes` do not start with a complete start of a later segment. Any bytes are safe.
std::optional<SegmentBeginning> decode_beginning(std::string_view bytes);

// The first valid segment after `number`, or nullopt. Throws Environment if it cannot be read.
std::optional<OpenSegment> next_segment(const std::filesystem::path& log, uint32_t number);

}  // namespace lockstep::tracking
