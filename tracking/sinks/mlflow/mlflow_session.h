// The run on the MLflow server that an entry is written to: found again or created, exactly once.
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
  std::string server, experiment;  // of which server, and the experiment's id
  MlflowRun run;
  std::optional<std::string> parent;  // the id of the job's run

  // What goes into the state of the sink, and comes back as `state` below.
  Json state() const;
};

struct MlflowEntry {
  const RunInfo& info;
  const Json& config;
  std::filesystem::path run_dir;
  std::string user;  // empty: not known
};

// The run that `state` remembers; else the one with the tag "lockstep.run_id" of the entry; else a
// new one. It and its parent are RUNNING then. `state`: null, or a session's of before. Throws what
// the client throws; Config when the remembered run was deleted.
MlflowSession begin_mlflow_session(MlflowClient& client, const MlflowSettings& settings,
                                   const MlflowEntry& entry, const Json& state);

// The params that the run lacks. Of those that it has with another value MLflow keeps the first;
// the new one becomes a tag, "lockstep.param_changed.<param>". For runs/log-batch.
void add_mlflow_params(const Json& config, const MlflowRun& run, MlflowBatch& batch);

}  // namespace lockstep::tracking
