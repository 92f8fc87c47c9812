// The parent run of a job whose ranks (or nodes) are nested runs. There is one per job, created by
// its first tracking agent. Its id is stored in <run>/sinks/mlflow/parent.json; agents that do not
// share that file find the run by its tags.
#pragma once

#include <filesystem>
#include <string>

#include "lockstep/run_info.h"
#include "tracking/sinks/mlflow/mlflow_client.h"

namespace lockstep::tracking {

// Whether the job of `info` has several entries.
bool has_mlflow_parent(const RunInfo& info);

// Finds or creates the parent run. `tags` are added to the default tags of a new run. Throws what
// the client throws, and Environment while another process holds the lock.
MlflowRun open_mlflow_parent(MlflowClient& client, const std::filesystem::path& run_dir,
                             const std::string& experiment, const RunInfo& info, MlflowTags tags);

// Sets the status of the parent from its nested runs: the first of RUNNING, FAILED, KILLED and
// FINISHED that one of them has.
void update_mlflow_parent_status(MlflowClient& client, const std::string& experiment,
                                 const std::string& parent, int64_t end_ms);

}  // namespace lockstep::tracking
