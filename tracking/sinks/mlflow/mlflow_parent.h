// The run of a job whose ranks (or nodes) are nested runs: one per job, whichever of its agents
// comes first. It is remembered in <run>/sinks/mlflow/parent.json, and found by its tags where that
// file is not shared.
#pragma once

#include <filesystem>
#include <string>

#include "lockstep/run_info.h"
#include "tracking/sinks/mlflow/mlflow_client.h"

namespace lockstep::tracking {

// Whether the entry is one of several of its job.
bool has_mlflow_parent(const RunInfo& info);

// Finds the run, or creates it. `tags`: what a new one has besides its own. Throws what the client
// throws, and Environment while another process is looking for it.
MlflowRun mlflow_parent(MlflowClient& client, const std::filesystem::path& run_dir,
                        const std::string& experiment, const RunInfo& info, MlflowTags tags);

// Gives it the status of its nested runs: the first of RUNNING, FAILED, KILLED and FINISHED that
// one of them has.
void settle_mlflow_parent(MlflowClient& client, const std::string& experiment,
                          const std::string& parent, int64_t end_ms);

}  // namespace lockstep::tracking
