// Address and credentials of the MLflow server, from the sink's config and MLflow's environment
// variables.
#pragma once

#include <optional>
#include <string>

#include "core/config/period.h"
#include "core/http/http_client.h"
#include "lockstep/run_info.h"
#include "lockstep/sink.h"
#include "tracking/http/public_url.h"

namespace lockstep::tracking {

struct MlflowConfig {
  std::optional<PublicUrl> tracking_uri;
  std::optional<std::string> experiment;
  std::optional<Duration> timeout;
  bool artifacts = true;
};
template <class V>
void fields(V& v, MlflowConfig& c) {
  v("tracking_uri", c.tracking_uri,
    "address of the MLflow server, http[s]://host[:port]; default: MLFLOW_TRACKING_URI");
  v("experiment", c.experiment,
    "experiment that the runs belong to; default: MLFLOW_EXPERIMENT_NAME, else the run's name");
  v("timeout", c.timeout,
    "how long to wait for the server; default: MLFLOW_HTTP_REQUEST_TIMEOUT (seconds), else 30 s");
  v("artifacts", c.artifacts,
    "upload the files of artifacts that the run made; otherwise only their names and digests");
}

struct MlflowSettings {
  HttpAddress address;
  HttpOptions http;
  int repeats = 1;                        // retries of an idempotent request without a response
  std::optional<std::string> experiment;  // nullopt: named after the run
};

// Throws Config if there is no server, its address is not HTTP, or a setting is not a number.
MlflowSettings mlflow_settings(const MlflowConfig& config, const Environment& environment);

}  // namespace lockstep::tracking
