// A sweep as JSON, for `lockstep sweep show --json` and the dashboard.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "sweep/sweep_directory.h"

namespace lockstep::sweep {

// "running", "done" or "stopped".
std::string state_of(const SweepDirectory& sweep, const std::vector<Trial>& trials);

// Trials by the names of their states; states without trials are absent.
std::map<std::string, int> counts_of(const std::vector<Trial>& trials);

// {"name", "id", "dir", "state", "created", "ranks", "sweep", "counts": {state: number}, "best": [trial]}
Json summary_json(const SweepDirectory& sweep, const std::vector<Trial>& trials);

// The summaries of all sweeps of a directory of runs, the newest first. Of a sweep whose files cannot be
// read: {"name", "dir", "problem"}.
Json summaries_json(const std::filesystem::path& runs);

// The same as summary_json() and "trials": [trial].
Json sweep_json(const SweepDirectory& sweep);

}  // namespace lockstep::sweep
