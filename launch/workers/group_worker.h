// A worker of a WorkerGroup, from one of its starts on. Only files of launch/ include this.
#pragma once

#include <chrono>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>

#include "core/system/child_process.h"
#include "core/system/progress_page.h"
#include "launch/report/error_file.h"
#include "launch/workers/restart_policy.h"
#include "launch/workers/worker_output.h"

namespace lockstep::launch {

inline constexpr std::chrono::milliseconds kDrainTime{2000};  // for output of exited workers

struct GroupWorker {
  GroupWorker(int rank_, int local_rank_, std::filesystem::path directory_, Console* out_console,
              Console* err_console, WorkerOutput::IsHidden hides_error, RestartPolicy restarts_)
      : rank(rank_),
        local_rank(local_rank_),
        directory(std::move(directory_)),
        out(rank, directory / "stdout.log", out_console),
        err(rank, directory / "stderr.log", err_console, std::move(hides_error)),
        restarts(restarts_) {}

  // What it reported before it printed the same.
  std::optional<ErrorReport> error() const {
    auto error = read_error_file(directory / "error.json");
    return error ? error : read_failure(*progress);
  }
  // Whether it was a rank in a group that did a step, since this start. Not known without shared memory.
  bool has_taken_part() const { return progress->snapshot().has_ended_step; }
  void terminate() const {
    process->signal_group(SIGTERM);
    process->signal_group(SIGCONT);  // a stopped process would not receive SIGTERM
  }
  bool was_started_again() const { return restarts.count() > 0; }

  int rank, local_rank;
  std::filesystem::path directory;
  WorkerOutput out, err;
  FileDescriptor progress_memory = try_to_share_memory();
  std::unique_ptr<ProgressPage> progress =
      progress_memory.is_open() ? std::make_unique<ProgressPage>(progress_memory.get())
                                : std::make_unique<ProgressPage>();
  std::optional<ChildProcess> process;
  int64_t pid = 0;  // of the process; remains when it is reaped
  std::optional<ProcessExit> exit;
  int64_t exit_time_us = 0;
  bool is_lost = false;    // it was killed, and the others may continue
  bool is_wanted = false;  // it was lost, and is to be started again, at start_at
  // It was lost when it had nothing left to do, or was started again and lost before it took part: no cause of a
  // failure, even if the workers are stopped before it is known that the others continue.
  bool is_harmless = false;
  RestartPolicy restarts;  // with this start
  RestartPolicy::Clock::time_point start_at;
  // Of one that was replaced by another start: until when its output is read.
  RestartPolicy::Clock::time_point drain_until;

 private:
  // Without it (because of a limit on file sizes, ...) hang reports are not available.
  static FileDescriptor try_to_share_memory();
};

}  // namespace lockstep::launch
