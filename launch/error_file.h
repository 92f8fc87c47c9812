// Why a worker failed, as a file that the worker writes and its launcher reads. The file has
// torchrun's format, so that torchrun's own summary shows the text as well; what only Lockstep
// knows is in its `extraInfo`:
//   {"message": {"message": "...",
//                "extraInfo": {"timestamp": "<unix seconds>", "kind": "config", "peer": false,
//                              "timestamp_us": 1790000000000000}}}
#pragma once

#include <cstdint>
#include <exception>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

struct ErrorReport {
  std::string message;
  std::string kind = "bug";  // "config", "environment" or "bug" (kind_name of core/error.h)
  bool peer = false;         // this rank was only waiting for another one: never the cause
  int64_t timestamp_us =
      0;  // when it happened, microseconds since the epoch; 0: when it is written
};

// What is known about `error`: an Error has its kind, a PeerError is a peer's, anything else is a
// bug.
ErrorReport describe_error(const std::exception& error);

// Best effort: true when the whole file is on disk. Never throws, since it runs while another error
// is handled.
bool write_error_file(const std::filesystem::path& path, const ErrorReport& report) noexcept;
bool write_error_file(const std::filesystem::path& path, const std::exception& error) noexcept;

// nullopt when there is none or it is not readable as one. Also reads what Python's torchrun
// workers write (kind "bug").
std::optional<ErrorReport> read_error_file(const std::filesystem::path& path);

// What a trainer that exited with `exit_code` said of its failure in its last lines on stderr, for
// a disk that had no room for its file. nullopt: nothing of that kind.
std::optional<ErrorReport> find_error(const std::vector<std::string>& last_lines, int exit_code);

// Microseconds since the epoch, the clock of `timestamp_us`.
int64_t unix_time_us();

}  // namespace lockstep
