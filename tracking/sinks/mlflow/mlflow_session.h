// Finds or creates the MLflow run of an entry, exactly once.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "lockstep/config_value.h"
#include "lockstep/run_info.h"
#include "tracking/sinks/mlflow/mlflow_client.h"

namespace lockstep::tracking {

class MlflowBatch;

struct MlflowSession {
  std::string server, experiment;  // the server's name and the experiment's id
  MlflowRun run;
  std::optional<std::string> parent;  // the run id of the job's parent run

  // The part of the sink's state that is passed as `state` below after a restart.
  Json state() const;
};

struct MlflowEntry {
  const RunInfo& info;
  const Json& config;
  std::filesystem::path run_dir;
  std::string user;  // empty if unknown
};

// Opens the run stored in `state`, else the one with the entry's "lockstep.run_id" tag, else a new
// one. Sets it and its parent to RUNNING. `state` is null or MlflowSession::state() of an earlier
// session. Throws what the client throws, and Config if the stored run was deleted.
MlflowSession begin_mlflow_session(MlflowClient& client, const MlflowSettings& settings,
                                   const MlflowEntry& entry, const Json& state);

// Adds the params that the run does not have yet. MLflow params cannot change: a new value of an
// existing param is added as the tag "lockstep.param_changed.<param>".
void add_mlflow_params(const Json& config, const MlflowRun& run, MlflowBatch& batch);

}  // namespace lockstep::tracking
