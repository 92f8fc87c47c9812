// The outcome of a launch: how each worker ended, which one caused a failure, and the text and exit
// code that follow. Pure: no I/O.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/system/child_process.h"
#include "launch/report/error_file.h"
#include "lockstep/error.h"

namespace lockstep::launch {

// Programs that exit gracefully on SIGTERM, SIGINT or SIGUSR1 return 128 + the signal number.
std::optional<int> preempting_signal(const ProcessExit& exit);

struct WorkerEnd {
  int rank = 0, local_rank = 0, node_rank = 0;  // rank: in the first group
  int64_t pid = 0;
  std::string host;  // empty with one node
  ProcessExit exit;
  // When the launcher detected the exit, microseconds since the epoch.
  int64_t time_us = 0;
  // It ended because the launcher stopped it: never a cause.
  bool stopped = false;
  std::optional<ErrorReport> error;  // reported by the worker itself
  // The others timed out waiting for it: its state on one line, where it was on another.
  std::string hang;
  std::vector<std::string> last_lines;  // of stderr, or of stdout if that is empty
  std::filesystem::path log;            // the file of those lines

  bool failed() const { return exit.signal || exit.code != 0; }
  // It failed only because another rank failed or did not arrive.
  bool lost_peer() const { return error && error->peer; }
  // The signal on which it exited gracefully.
  std::optional<int> preempted_by() const { return error ? std::nullopt : preempting_signal(exit); }
  // When it failed: its own timestamp, if it reported one.
  int64_t failure_time_us() const {
    return error && error->timestamp_us ? error->timestamp_us : time_us;
  }
  // "exited with code 78 (the input is wrong)", "killed by SIGSEGV (invalid memory access)".
  std::string what() const;
  // Its error message, else its last lines; empty if there are none.
  std::vector<std::string> detail() const;
  // Its own exit code; 70 for signals that indicate a bug (SIGSEGV, ...), 75 for other signals. A
  // worker that was stopped after it had reported an error counts as exited with that error's code.
  int exit_code() const;
  // The signal that killed it; none if it hung, or if exit_code() is that of its error.
  std::optional<int> fatal_signal() const;
};

// A node that failed as a whole: it was lost, or could not start its workers.
struct NodeFailure {
  int node_rank = 0;
  std::string host;
  std::string reason;  // one line
  int exit_code = static_cast<int>(ErrorKind::Environment);
  // "node 1 on hostB: lost: no message for 15 s".
  std::string what() const;
};

struct LaunchReport {
  int world_size = 1;
  std::vector<WorkerEnd> workers;  // of this node, or of all nodes, by rank
  std::vector<NodeFailure> node_failures;
  std::optional<int> interrupted_by;  // the signal that stopped the launch from outside
  int restarts = 0;                   // before the attempt of this report
  int node_rank = 0;                  // of this node in that attempt
  int64_t last_step = 0;              // of training, in that attempt
  bool serves = true;                 // this node is the coordinator's: has all workers' results
  bool took_over = false;             // it has replaced the coordinator, whose node was lost
  std::string run_id;                 // of all nodes
  std::vector<std::string> notes;     // other problems, e.g. a log file that could not be written
  bool failed_alike = false;          // all_failed_alike() of a report whose workers were left out
  // On the console of this node: the messages with which its ranks rejected their input, each once.
  std::vector<std::string> shown_errors;
  bool is_console_complete = true;  // the console has shown everything that it was to show

  // The worker that failed first and not only because of a peer; nullptr if none failed, if the
  // failure of a node is the cause, or if the launch was interrupted.
  const WorkerEnd* cause() const;
  // All ranks rejected the input with the same error message: none of them is the culprit. Other
  // failures occur on one rank, which reports them to the others.
  bool all_failed_alike() const;
  // The node whose failure is the cause: other workers failed only because they lost a peer.
  const NodeFailure* node_cause() const;
  // The signal on which the job exited gracefully: no rank failed otherwise.
  std::optional<int> preempted_by() const;
  bool succeeded() const { return !interrupted_by && !preempted_by() && !cause() && !node_cause(); }
  // 0, 128 + the interrupting or preempting signal, or the cause's.
  int exit_code() const;
  // One line: "rank 1 (of 4) on hostB failed first: killed by ...", or "all 4 ranks failed: exited
  // with code 78 ...". Empty when succeeded.
  std::string summary() const;
  // Several lines: the summary, the error of the cause unless all failed alike and the console has
  // shown it, and how the others ended. Notes are included even when succeeded.
  std::string text() const;
};

// The cause among `workers`: the earliest failure, then the lowest rank. Ranks that were stopped or
// preempted are ignored. Ranks that only lost a peer are considered only if no other rank failed,
// and after a rank for which they timed out. nullptr if no rank qualifies.
const WorkerEnd* find_cause(const std::vector<WorkerEnd>& workers);

// "SIGKILL", or "signal 64" for one without a name.
std::string signal_name(int signal);

}  // namespace lockstep::launch
