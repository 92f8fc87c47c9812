// Why a worker failed, as a file that the worker writes and its launcher reads, and the same text
// in the progress page that both share, which needs no disk. It has torchrun's format, so that
// torchrun's own summary shows the text as well; what only Lockstep knows is in its `extraInfo`:
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
  bool peer = false;         // this rank was only waiting for another one: never the cause
  int64_t timestamp_us =
      0;  // when it happened, microseconds since the epoch; 0: when it is written
};

// What is known about `error`: its kind_of() and message_of(); a PeerError is a peer's.
ErrorReport describe_error(const std::exception& error);

// Best effort: true when the whole file is on disk. Never throws, since it runs while another error
// is handled.
bool write_error_file(const std::filesystem::path& path, const ErrorReport& report) noexcept;
bool write_error_file(const std::filesystem::path& path, const std::exception& error) noexcept;

// nullopt when there is none or it is not readable as one. Also reads what Python's torchrun
// workers write (kind "bug").
std::optional<ErrorReport> read_error_file(const std::filesystem::path& path);

// The same through the progress page; a long message is cut off. The first failure of a process
// counts.
void report_failure(ProgressPage& page, const ErrorReport& report) noexcept;
// nullopt when none was told.
std::optional<ErrorReport> read_failure(const ProgressPage& page);

// The exit code of a process that failed so.
int exit_code_of(const ErrorReport& report);

// Microseconds since the epoch, the clock of `timestamp_us`.
int64_t unix_time_us();

}  // namespace lockstep::launch
