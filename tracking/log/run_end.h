// How a run, or one entry of it, ended. Who says so, and who is believed: tracking/runs/end_facts.h.
#pragma once

#include <optional>
#include <string>

#include "core/config/config_value.h"

namespace lockstep {

enum class RunState { Running, Finished, Failed, Killed, Preempted, Lost };

// "running", "finished", ...
const char* state_name(RunState state);
std::optional<RunState> parse_state(const std::string& name);
// Neither Running nor Lost.
bool has_ended(RunState state);
// A job is as well as its entry of the greatest severity.
int severity(RunState state);

struct RunEnd {
  RunState state = RunState::Finished;
  int exit_code = 0;
  std::optional<int>
      signal;  // what killed the run (Killed), or the rank that brought it down (Failed)
  std::optional<int> rank;  // which rank failed first
  std::string reason;       // one line; empty when it finished with its last step

  bool operator==(const RunEnd&) const = default;
};

Json to_json(const RunEnd& end);
// nullopt when `json` names no known state.
std::optional<RunEnd> run_end_from_json(const Json& json);

}  // namespace lockstep
