// The identity of one entry in the list of runs: which job, which process of it, where and when.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/config/config_value.h"

namespace lockstep {

// How long the run is planned to be; 0 where that is not known. It ends with whichever is reached
// first.
struct RunLength {
  int64_t steps = 0;
  double epochs = 0;
};

// In `ranks: main` a job is one entry, whose id is the job's; otherwise every logging rank is one
// (see on_ranks.h).
struct RunInfo {
  std::string id;    // unique per entry
  std::string name;  // for people
  std::optional<std::string> group, job_type;
  std::string job_id;  // the name of the run directory, the same on all ranks
  int rank = 0, world_size = 1, node_rank = 0, local_rank = 0;
  std::string host;
  int64_t pid = 0;
  double created = 0;  // unix seconds
  std::vector<std::string> command;
  RunLength planned;
};

// {"steps": N or null, "epochs": E or null}
Json to_json(const RunLength& length);

Json to_json(const RunInfo& info);

// nullopt when `json` is no object with an id. Any other member that is missing or of a wrong type
// keeps its default.
std::optional<RunInfo> run_info_from_json(const Json& json);

}  // namespace lockstep
