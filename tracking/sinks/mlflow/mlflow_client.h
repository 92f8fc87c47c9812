// Client of MLflow's REST API (MLflow 3.17, /api/2.0/mlflow), as far as runs need it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/http/http_client.h"
#include "lockstep/config_value.h"
#include "tracking/sinks/mlflow/mlflow_settings.h"

namespace lockstep::tracking {

struct MlflowRun {
  std::string id, artifact_uri;
  std::string status;  // RUNNING, FINISHED, FAILED, KILLED
  std::map<std::string, std::string> params, tags;
};

using MlflowTags = std::map<std::string, std::string>;

// Not thread-safe. Errors: no response, 408, 429 and 5xx are Environment errors; rejected
// credentials and all other rejected requests are Config errors.
class MlflowClient {
 public:
  explicit MlflowClient(const MlflowSettings& settings);

  // Returns the id of the experiment; creates the experiment if it does not exist.
  std::string experiment(const std::string& name);

  // Returns the runs with these tags, oldest first, without deleted runs.
  std::vector<MlflowRun> runs_with(const std::string& experiment, const MlflowTags& tags);
  // Returns nullopt if the run does not exist or was deleted.
  std::optional<MlflowRun> run(const std::string& id);
  // Not idempotent. After a lost response, check with runs_with() before calling it again.
  MlflowRun create_run(const std::string& experiment, const std::string& name, int64_t start_ms,
                       const MlflowTags& tags);
  // Without `end_ms`, the end time is unchanged.
  void set_status(const std::string& run, const char* status, std::optional<int64_t> end_ms = {});
  void set_tag(const std::string& run, const std::string& key, const std::string& value);

  // Calls runs/log-batch with `body`, a JSON object. Returns false if the server rejects its
  // contents.
  bool log_batch(const std::string& body);

  // Upload to `path` in the artifacts of the run. Return the reason if the server rejects it.
  std::optional<std::string> put_artifact(const MlflowRun& run, const std::string& path,
                                          const std::string& content, const std::string& type);
  std::optional<std::string> put_artifact(const MlflowRun& run, const std::string& path,
                                          const std::filesystem::path& file);

  // "MLflow at http://host:5000".
  const std::string& name() const { return name_; }

 private:
  struct Response {
    int status = 0;
    Json json;
    std::string code, message;  // set on errors
  };
  using Send = std::function<HttpResponse()>;

  HttpResponse send(const Send& request, int repeats);
  Response call(const Send& request, int repeats);
  Response get(const std::string& path);
  Response post(const std::string& path, const Json& body, bool can_repeat = true);
  Json expect(Response response, const std::string& what) const;
  std::string experiment_id(const Json& response, const std::string& name) const;
  std::optional<std::string> put(const MlflowRun& run, const std::string& path,
                                 const std::function<HttpResponse(const std::string&)>& request);

  const std::string name_;
  const std::string authority_;  // "host:5000"
  const int repeats_;
  const std::chrono::milliseconds timeout_;  // no retry starts after it
  HttpClient http_;
};

}  // namespace lockstep::tracking
