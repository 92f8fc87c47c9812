// What ranks printed, as the event log of their node recorded it: all that there is of a node whose
// files are not on this machine.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "tracking/log/record.h"

namespace lockstep {

// One rank's stdout or stderr in one event log, as if it were a file of these lines.
struct RecordedConsole {
  // Some of its lines, which lie between two places of the log with records of other kinds.
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
  // At most `most_bytes` of the output from byte `from` on. Throws Environment when the log cannot
  // be read.
  std::string read(uint64_t from, size_t most_bytes) const;
};

}  // namespace lockstep
