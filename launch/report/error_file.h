// The reason of a worker's failure, in a file that the worker writes and its launcher reads, and in
// the progress page that both share, which needs no disk. The format is torchrun's, so that its
// summary shows the message as well; fields of Lockstep are in `extraInfo`:
//   {"message": {"message": "...",
//                "extraInfo": {"timestamp": "<unix seconds>", "kind": "config", "peer": false,
//                              "timestamp_us": 1790000000000000}}}
#pragma once

#include <cstdint>
#include <exception>
#include <filesystem>
#include <optional>
#include <string>

#include "core/system/progress_page.h"
#include "lockstep/error.h"

namespace lockstep::launch {

struct ErrorReport {
  std::string message;
  std::string kind = "bug";  // "config", "environment" or "bug" (kind_name of lockstep/error.h)
  bool peer = false;         // this rank only lost a peer: never the cause
  int64_t timestamp_us = 0;  // of the failure, microseconds since the epoch; 0: set when written
};

// Kind and message of `error` (kind_of(), message_of()); `peer` for a PeerError.
ErrorReport describe_error(const std::exception& error);

// Best effort: returns whether the whole file is on disk. Never throws, since it runs during error
// handling.
bool write_error_file(const std::filesystem::path& path, const ErrorReport& report) noexcept;
bool write_error_file(const std::filesystem::path& path, const std::exception& error) noexcept;

// nullopt if the file does not exist or is not valid. Also reads the files of Python's torchrun
// workers (kind "bug").
std::optional<ErrorReport> read_error_file(const std::filesystem::path& path);

// The same through the progress page. Long messages are truncated; only the first failure of a
// process is kept.
void report_failure(ProgressPage& page, const ErrorReport& report) noexcept;
// nullopt if none was reported.
std::optional<ErrorReport> read_failure(const ProgressPage& page);

// The exit code of a process with this failure.
int exit_code_of(const ErrorReport& report);

// Microseconds since the epoch, the clock of `timestamp_us`.
int64_t unix_time_us();

}  // namespace lockstep::launch
