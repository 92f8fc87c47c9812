// The identity of a run (job, process, host, time) and its outcome.
//
// Example:
//   std::string describe_run(const lockstep::RunInfo& info, const lockstep::RunEnd& end) {
//     return info.name + " on " + info.host + ": " + lockstep::state_name(end.state);
//   }
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/config_value.h"

namespace lockstep {

// The planned length of a run, which ends when either limit is reached; 0: not limited, or unknown.
struct RunLength {
  int64_t steps = 0;
  double epochs = 0;
};

// One entry in the list of runs. With `tracking.ranks: main`, a job is one entry, whose id is that
// of the job; otherwise every logging rank is an entry.
struct RunInfo {
  std::string id;    // unique per entry
  std::string name;  // for display
  std::optional<std::string> group, job_type;
  std::string job_id;  // the name of the run directory; the same on all ranks
  int rank = 0, world_size = 1, node_rank = 0, local_rank = 0;
  std::string host;
  int64_t pid = 0;
  double created = 0;  // Unix time, seconds
  double resumed = 0;  // when the last process that continued it began; 0: none did
  std::vector<std::string> command;
  RunLength planned;
};

// {"steps": N or null, "epochs": E or null}
Json to_json(const RunLength& length);

Json to_json(const RunInfo& info);

// nullopt if `json` is not an object with an id. Other members that are missing or have the wrong
// type keep their defaults.
std::optional<RunInfo> run_info_from_json(const Json& json);

// Lost: the event log has no end record, and no process is writing it.
enum class RunState { Running, Finished, Failed, Killed, Preempted, Lost };

// "running", "finished", ...
const char* state_name(RunState state);
std::optional<RunState> parse_state(const std::string& name);
// True for states other than Running and Lost.
bool has_ended(RunState state);
// The state of a job is that of its entry with the highest severity.
int severity(RunState state);

// The outcome of a run or of one of its entries.
struct RunEnd {
  RunState state = RunState::Finished;
  int exit_code = 0;
  std::optional<int> signal;  // that killed the run (Killed) or the rank that failed first (Failed)
  std::optional<int> rank;    // the rank that failed first
  std::string reason;         // one line; empty if the run completed its last step

  bool operator==(const RunEnd&) const = default;
};

Json to_json(const RunEnd& end);
// nullopt if the state in `json` is unknown.
std::optional<RunEnd> run_end_from_json(const Json& json);

}  // namespace lockstep
