// How a run ended, as a fact beside its logs: written by the last process that knows (the trainer
// itself, or the launcher when a rank died), read by `lockstep runs`.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "core/config_value.h"

namespace lockstep {

enum class RunState { Running, Finished, Failed, Killed, Preempted, Lost };

// "running", "finished", ...
const char* state_name(RunState state);
std::optional<RunState> parse_state(const std::string& name);

struct RunEnd {
  RunState state = RunState::Finished;
  int exit_code = 0;
  std::optional<int>
      signal;  // what killed the run (Killed), or the rank that brought it down (Failed)
  std::optional<int> rank;  // which rank failed first
  std::string reason;       // one line; empty when it finished with its last step
  // In end.json alone: by the launcher, which saw every process of the job end.
  bool is_confirmed = false;
};

Json to_json(const RunEnd& end);
// nullopt when `json` names no known state.
std::optional<RunEnd> run_end_from_json(const Json& json);

// Writes <run_dir>/end.json durably, replacing an earlier one. Throws Environment.
void write_run_end(const std::filesystem::path& run_dir, const RunEnd& end);

// nullopt when there is none or it is not readable as one.
std::optional<RunEnd> read_run_end(const std::filesystem::path& run_dir);

// Removes it: the run goes on (a resume). Throws Environment.
void clear_run_end(const std::filesystem::path& run_dir);

}  // namespace lockstep
