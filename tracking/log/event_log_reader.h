// Reads the whole event log of one process: each segment up to the first corrupt frame, with
// rewinds applied. Skips images, histograms, tables and console lines; log_tail.h reads them one by
// one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tracking/log/record_codec.h"

namespace lockstep::tracking {

struct LogContents {
  std::optional<RunInfo> info;  // of the last writing process; `created` of the first
  Json config;                  // null if there is none
  std::vector<std::string> keys;
  std::vector<LoggedRow> rows;  // in the order written
  std::vector<TextLine> texts;
  std::vector<Alert> alerts;
  std::vector<ArtifactUse> artifacts;
  Json summary = Json::object();
  std::optional<RunEnd> end;  // how the last process ended, if it recorded that

  uint64_t num_frames = 0;  // without the copies at the start of a segment
  uint64_t good_bytes = 0;  // of all segments read. Of one: where a writer continues; 0 if
                            // the header is incomplete
  bool torn = false;        // nonzero bytes follow, e.g. a frame cut off by a kill, or the
                            // start of a segment is corrupt
  std::string problem;      // why nothing can be read: not an event log, or a later version;
                            // otherwise empty
};

// Why a log with these first bytes cannot be read. Empty if it can be read, or is incomplete.
std::string log_header_problem(std::string_view bytes);

// Decodes one segment. Safe for any bytes; never throws because of their content.
LogContents decode_event_log(std::string_view bytes);

// All segments of a log. Throws Environment if a file cannot be read or is larger than 4 GiB. If a
// writer appends at the same time, its new records are missing, and `torn` may be set because of an
// incomplete frame.
LogContents read_event_log(const std::filesystem::path& path);

// One segment: its records, and the state copied to its start. Throws as read_event_log() does.
LogContents read_log_segment(const std::filesystem::path& path);

// Whether a process has the log open for writing. Call before reading: after false, the content is
// final. Does not disturb the writer. False for a missing or unreadable file.
bool has_writer(const std::filesystem::path& path);

}  // namespace lockstep::tracking
