// The calls of MLflow's REST interface that a run needs (MLflow 3.17, /api/2.0/mlflow).
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/config_value.h"
#include "tracking/http/http_client.h"
#include "tracking/sinks/mlflow/mlflow_settings.h"

namespace lockstep::tracking {

struct MlflowRun {
  std::string id, artifact_uri;
  std::string status;  // RUNNING, FINISHED, FAILED, KILLED
  std::map<std::string, std::string> params, tags;
};

using MlflowTags = std::map<std::string, std::string>;

// Thread: one at a time. Errors: no answer, 408, 429 and 5xx are Environment errors; refused
// credentials and everything else that the server will not take are Config errors.
class MlflowClient {
 public:
  explicit MlflowClient(const MlflowSettings& settings);

  // The id of the experiment, which is created where there is none of that name.
  std::string experiment(const std::string& name);

  // The runs with these tags, the oldest first; of deleted ones none.
  std::vector<MlflowRun> runs_with(const std::string& experiment, const MlflowTags& tags);
  // nullopt when there is none, or it was deleted.
  std::optional<MlflowRun> run(const std::string& id);
  // A call whose answer is lost may have created one: look for it with runs_with() first.
  MlflowRun create_run(const std::string& experiment, const std::string& name, int64_t start_ms,
                       const MlflowTags& tags);
  // `end_ms`: nullopt leaves it as it is.
  void set_status(const std::string& run, const char* status, std::optional<int64_t> end_ms = {});
  void set_tag(const std::string& run, const std::string& key, const std::string& value);

  // runs/log-batch with `body`, a JSON object. False when the server says that something in it is
  // wrong.
  bool log_batch(const std::string& body);

  // `path`: in the artifacts of the run. Return why the server does not take it, or nullopt when it
  // did.
  std::optional<std::string> put_artifact(const MlflowRun& run, const std::string& path,
                                          const std::string& content, const std::string& type);
  std::optional<std::string> put_artifact(const MlflowRun& run, const std::string& path,
                                          const std::filesystem::path& file);

  // "MLflow at http://host:5000".
  const std::string& name() const { return name_; }

 private:
  struct Answer {
    int status = 0;
    Json json;
    std::string code, message;  // of an error
  };
  using Send = std::function<HttpResponse()>;

  HttpResponse send(const Send& request, int repeats);
  Answer call(const Send& request, int repeats);
  Answer get(const std::string& path);
  Answer post(const std::string& path, const Json& body, bool can_repeat = true);
  Json expect(Answer answer, const std::string& what) const;
  std::string experiment_of(const Json& answer, const std::string& name) const;
  std::optional<std::string> put(const MlflowRun& run, const std::string& path,
                                 const std::function<HttpResponse(const std::string&)>& request);

  const std::string name_;
  const std::string authority_;  // "host:5000"
  const int repeats_;
  const std::chrono::milliseconds timeout_;  // no repeat begins later
  HttpClient http_;
};

}  // namespace lockstep::tracking
