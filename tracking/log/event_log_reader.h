// Reads the event log of one process as a whole: of each segment everything up to the first damaged
// frame, with rewinds applied. Images, histograms, tables and console lines are passed over;
// log_tail.h has them one by one.
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
  Json config;                  // null when there is none
  std::vector<std::string> keys;
  std::vector<LoggedRow> rows;  // in the order written
  std::vector<TextLine> texts;
  std::vector<Alert> alerts;
  std::vector<ArtifactUse> artifacts;
  Json summary = Json::object();
  std::optional<RunEnd>
      end;  // how the last writing process ended, as far as it could say so itself

  uint64_t num_frames = 0;  // without what a segment begins with
  uint64_t good_bytes = 0;  // of all segments that were read. Of one: where a writer continues; 0
                            // when not even the header is whole
  bool torn = false;  // something other than zeros follows, e.g. the frame that a kill interrupted,
                      // or a segment whose beginning is damaged
  std::string problem;  // why nothing can be read at all: not an event log, or of a later version;
                        // else empty
};

// Why a log with these first bytes cannot be read at all; empty where it can, and where it is only
// in the making or cut.
std::string log_header_problem(std::string_view bytes);

// The bytes of one segment. Pure and safe for any bytes; never throws for their content.
LogContents decode_event_log(std::string_view bytes);

// All segments of a log. Throws Environment when a file cannot be read or has more than 4 GiB. A
// writer may be at work meanwhile: what it appends later is missing, and `torn` may be set for the
// frame in the making.
LogContents read_event_log(const std::filesystem::path& path);

// One segment alone: its records, and what holds there. Throws as read_event_log() does.
LogContents read_log_segment(const std::filesystem::path& path);

// Whether a process holds the log open for writing. Ask before reading: when it says no, what is
// read is final. Does not disturb the writer. False for a file that is not there or not readable.
bool has_writer(const std::filesystem::path& path);

}  // namespace lockstep::tracking
