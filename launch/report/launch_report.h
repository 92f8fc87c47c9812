// How the workers of a launch ended, which of them was the cause of a failure, and that as text and
// exit code. Pure: no I/O.
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

// Programs that end in good order because of SIGTERM, SIGINT or SIGUSR1 exit with 128 and its
// number.
std::optional<int> preempting_signal(const ProcessExit& exit);

struct WorkerEnd {
  int rank = 0, local_rank = 0, node_rank = 0;
  std::string host;  // empty when there is one node only
  ProcessExit exit;
  // When the launcher saw it, microseconds since the epoch.
  int64_t time_us = 0;
  // It ended as it did because the launcher told it to: never a cause.
  bool stopped = false;
  std::optional<ErrorReport> error;  // what it told itself
  // The others gave up waiting for it: what it did in one line, and where it was in another.
  std::string hang;
  std::vector<std::string> last_lines;  // of its stderr (of its stdout when that is empty)
  std::filesystem::path log;            // the file of those lines

  bool failed() const { return exit.signal || exit.code != 0; }
  // It failed only because another one did, or did not come.
  bool lost_peer() const { return error && error->peer; }
  // The signal after which it ended in good order, by itself.
  std::optional<int> preempted_by() const { return error ? std::nullopt : preempting_signal(exit); }
  // When it failed: its own word where there is one.
  int64_t failure_time_us() const {
    return error && error->timestamp_us ? error->timestamp_us : time_us;
  }
  // "exited with code 78 (the input is wrong)", "was killed by SIGKILL (out of memory, or by
  // hand)".
  std::string what() const;
  // Its error text, else its last lines; empty when it said nothing.
  std::vector<std::string> detail() const;
  // Its own exit code; of a signal that a broken program gets (SIGSEGV, ...) 70, of others 75. A
  // worker that had written why it failed and was stopped before it could exit counts as having
  // exited with that code.
  int exit_code() const;
  // The signal that it died of: none when it hung, or when exit_code() is that of its error.
  std::optional<int> fatal_signal() const;
};

// A node that failed as a whole: it was lost, or could not start its workers.
struct NodeFailure {
  int node_rank = 0;
  std::string host;
  std::string reason;  // one line
  int exit_code = static_cast<int>(ErrorKind::Environment);
  // "node 1 on hostB: lost: nothing was heard from it for 15 s".
  std::string what() const;
};

struct LaunchReport {
  int world_size = 1;
  std::vector<WorkerEnd> workers;  // of this node, or of all nodes, by rank
  std::vector<NodeFailure> node_failures;
  std::optional<int> interrupted_by;  // the signal that ended the launch from outside
  int restarts = 0;                   // that came before the attempt this report is about
  int node_rank = 0;                  // of this node in that attempt
  int64_t last_step = 0;              // of the training, that was seen in it
  bool serves = true;                 // this node decided for all, and knows about all workers
  std::string run_id;                 // that all nodes agreed on
  std::vector<std::string>
      notes;  // what else went wrong, e.g. a log file that could not be written

  // The worker that failed first for a reason of its own; nullptr when none failed, when a node's
  // failure is the cause, or when the launch was interrupted.
  const WorkerEnd* cause() const;
  // The node whose failure is the cause: workers elsewhere failed only because they lost a peer.
  const NodeFailure* node_cause() const;
  // The signal that ended the job in good order: all ranks that did not succeed say so.
  std::optional<int> preempted_by() const;
  bool succeeded() const { return !interrupted_by && !preempted_by() && !cause() && !node_cause(); }
  // 0, 128 + the interrupting or preempting signal, or the cause's.
  int exit_code() const;
  // One line: "rank 1 (of 4) on hostB failed first: was killed by ...". Empty when succeeded.
  std::string summary() const;
  // The summary, the cause's own words, and how the others ended; several lines. Notes also when
  // succeeded.
  std::string text() const;
};

// Ranks that were stopped or preempted never count. Ranks that only lost a peer count when no other
// failed; before them comes the rank that they gave up waiting for. Of the rest, the earliest (then
// the lowest rank). nullptr when no rank counts.
const WorkerEnd* find_cause(const std::vector<WorkerEnd>& workers);

// "SIGKILL", or "signal 64" for one without a name.
std::string signal_name(int signal);

}  // namespace lockstep::launch
