// Records of an event log by position, and the recorded output of ranks.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tracking/log/record_codec.h"

namespace lockstep::catalog {

// The record that ends at byte `end` of the log, all segments counted, as LogTail::offset() counts
// them; it begins at or after `begin`. nullopt if there is none. Throws Environment if the log
// cannot be read.
std::optional<tracking::Record> read_log_record(const std::filesystem::path& log, uint64_t begin,
                                                uint64_t end);

// One rank's stdout or stderr as the event log of its node recorded it, presented
// as a file: the only source for nodes whose files are not on this machine.
struct RecordedConsole {
  // A group of its lines, between two positions of the log, mixed with records of other kinds.
  struct Part {
    uint64_t at = 0;              // of its first line, in bytes of the output
    uint64_t begin = 0, end = 0;  // in the log, all segments counted
  };

  std::filesystem::path log;
  int rank = 0;
  bool is_error = false;
  uint64_t bytes = 0;
  double modified = 0;  // unix seconds of the last line
  std::vector<Part> parts;

  bool is_from(const ConsoleLine& line) const {
    return std::pair(line.rank, line.is_error) == std::pair(rank, is_error);
  }
  // The line's record lies between `begin` and `end` of the log.
  void add(const ConsoleLine& line, uint64_t begin, uint64_t end);
  // At most `max_bytes` of the output from byte `from` on. Throws Environment if the log cannot
  // be read.
  std::string read(uint64_t from, size_t max_bytes) const;
};

}  // namespace lockstep::catalog
