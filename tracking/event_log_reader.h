// Reads the event log of one process: everything up to the first damaged frame, with rewinds
// applied.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tracking/metric.h"
#include "tracking/run_end.h"
#include "tracking/run_info.h"

namespace lockstep {

struct LoggedRow {
  int64_t step = 0;
  double time = 0, epoch = 0;
  std::vector<std::pair<uint32_t, double>> values;  // index into LogContents::keys, value
};

struct LoggedText {
  double time = 0;  // unix seconds
  TextLevel level = TextLevel::Info;
  std::string line;
};

struct LogContents {
  std::optional<RunInfo> info;  // of the last writing process; `created` of the first
  Json config;                  // null when there is none
  std::vector<std::string> keys;
  std::vector<LoggedRow> rows;  // in the order written
  std::vector<LoggedText> texts;
  Json summary = Json::object();
  std::optional<RunEnd>
      end;  // how the last writing process ended, as far as it could say so itself

  uint64_t num_frames = 0;
  uint64_t good_bytes = 0;  // where a writer continues; 0 when not even the header is whole
  bool torn = false;  // something other than zeros follows, e.g. the frame that a kill interrupted
  std::string problem;  // why nothing can be read at all: not an event log, or of a later version;
                        // else empty
};

// Pure and safe for any bytes; never throws for their content.
LogContents decode_event_log(std::string_view bytes);

// Throws Environment when the file cannot be read or has more than 4 GiB. A writer may be at work
// meanwhile: what it appends later is missing, and `torn` may be set for the frame in the making.
LogContents read_event_log(const std::filesystem::path& path);

// Whether a process holds the log open for writing. Ask before reading: when it says no, what is
// read is final. Does not disturb the writer. False for a file that is not there or not readable.
bool has_writer(const std::filesystem::path& path);

}  // namespace lockstep
