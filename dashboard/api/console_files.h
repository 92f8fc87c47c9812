// The console output of the ranks of a run, from the files of `lockstep launch`:
// <run>/logs/[node_<k>/]attempt_<n>/<local rank>/stdout.log, or from the event log of a node whose
// files are not local.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "catalog/run_logs.h"

namespace lockstep::dashboard {

struct ConsoleStream {
  std::string name;  // "1-0-3-err": attempt, node, local rank, stdout or stderr; "1-0-3.1-err": of
                     // its second start; "node-1-3-err": source, rank, stdout or stderr
  std::filesystem::path path;                                // empty if from an event log
  std::shared_ptr<const catalog::RecordedConsole> recorded;  // nullptr if from a file
  int attempt = 0, node = 0, local_rank = 0, start = 0;
  int rank = 0;
  bool is_error = false;
  uint64_t bytes = 0;
  double modified = 0;  // unix seconds
};

// The files, by attempt and rank, then the recorded output of ranks without a file. Symbolic links
// are skipped.
std::vector<ConsoleStream> console_streams(const catalog::RunLogs& logs);

struct ConsoleChunk {
  uint64_t begin = 0, end = 0, size = 0;  // byte offsets
  std::vector<std::string> lines;
};

// These throw Environment if the output cannot be read. Lines are complete, without the overwritten
// states of progress bars; bytes that are not UTF-8 are replaced. An unfinished last line is
// returned if `is_over`, or if it is longer than `max_bytes`.
ConsoleChunk read_console(const ConsoleStream& stream, uint64_t from, size_t max_bytes,
                          bool is_over);
// The lines before byte `to`.
ConsoleChunk read_console_before(const ConsoleStream& stream, uint64_t to, size_t max_bytes);
// The last lines.
ConsoleChunk read_console_tail(const ConsoleStream& stream, size_t num_lines, bool is_over);

struct ConsoleMatch {
  uint64_t offset = 0;
  std::string line;
};

struct ConsoleMatches {
  uint64_t end = 0, size = 0;  // searched up to `end`
  std::vector<ConsoleMatch> matches;
};

// Lines from byte `from` that contain `text`, case-insensitive. Searches at most 64 MiB.
ConsoleMatches search_console(const ConsoleStream& stream, const std::string& text, uint64_t from,
                              size_t max_matches);

}  // namespace lockstep::dashboard
