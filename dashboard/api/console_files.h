// What the ranks of a run printed, as `lockstep launch` keeps it:
// <run>/logs/[node_<k>/]attempt_<n>/<local rank>/stdout.log. Of nodes whose files are elsewhere,
// what their event logs recorded.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "catalog/run_logs.h"

namespace lockstep::dashboard {

struct ConsoleStream {
  std::string name;  // "1-0-3-err": attempt, node, local rank, stdout or stderr; "node-1-3-err":
                     // source, rank, stdout or stderr
  std::filesystem::path path;                                // empty where it was recorded
  std::shared_ptr<const catalog::RecordedConsole> recorded;  // nullptr where there is a file
  int attempt = 0, node = 0, local_rank = 0;
  int rank = 0;
  bool is_error = false;
  uint64_t bytes = 0;
  double modified = 0;  // unix seconds
};

// The files in the order of attempts and ranks, then what was recorded of ranks without a file.
// Links are passed over.
std::vector<ConsoleStream> console_streams(const catalog::RunLogs& logs);

struct ConsolePiece {
  uint64_t begin = 0, end = 0, size = 0;  // bytes of the output
  std::vector<std::string> lines;
};

// All of these throw Environment when the output cannot be read. Lines are whole, without what a
// progress bar overwrote; bytes that are not UTF-8 are replaced. An unfinished last line comes when
// `is_over`, or when it is longer than a piece.
ConsolePiece read_console(const ConsoleStream& stream, uint64_t from, size_t most_bytes,
                          bool is_over);
// The lines before byte `to`.
ConsolePiece read_console_before(const ConsoleStream& stream, uint64_t to, size_t most_bytes);
// The last lines.
ConsolePiece read_console_tail(const ConsoleStream& stream, size_t num_lines, bool is_over);

struct ConsoleMatch {
  uint64_t offset = 0;
  std::string line;
};

struct ConsoleMatches {
  uint64_t end = 0, size = 0;  // looked at up to `end`
  std::vector<ConsoleMatch> matches;
};

// Lines from byte `from` on that contain `text`, ignoring case. Looks at 64 MiB at most.
ConsoleMatches search_console(const ConsoleStream& stream, const std::string& text, uint64_t from,
                              size_t most_matches);

}  // namespace lockstep::dashboard
