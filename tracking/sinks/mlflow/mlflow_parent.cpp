#include "tracking/sinks/mlflow/mlflow_parent.h"

#include <fmt/format.h>
#include <sys/file.h>

#include <algorithm>
#include <cerrno>

#include "core/system/durable_file.h"
#include "core/system/file_lock.h"
#include "lockstep/error.h"

namespace lockstep::tracking {
namespace {

// The lock is held while the descriptor is open.
FileDescriptor lock_parent(const std::filesystem::path& path) {
  auto file = open_lock_file(path);
  if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK)
      throw environment_error("another process is creating the job's run on the MLflow server");
    throw errno_error(fmt::format("cannot lock {}", path.string()));
  }
  return file;
}

// The run id stored for this server and experiment, or empty.
std::string stored_run_id(const std::filesystem::path& file, const Json& place) {
  std::error_code ignored;
  if (!std::filesystem::exists(file, ignored)) return "";
  const auto json = Json::parse(read_file(file), nullptr, false);
  const bool matches = json.is_object() && json.contains("place") && json["place"] == place &&
                       json.contains("run_id") && json["run_id"].is_string();
  return matches ? json["run_id"].get<std::string>() : "";
}

MlflowRun find_or_create_parent(MlflowClient& client, const std::string& experiment,
                                const RunInfo& info, MlflowTags tags) {
  const MlflowTags identity = {{"lockstep.job_id", info.job_id}, {"lockstep.role", "group"}};
  const auto found = client.runs_with(experiment, identity);
  if (!found.empty()) return found.front();
  tags.insert(identity.begin(), identity.end());
  const auto start_ms = static_cast<int64_t>(std::max(info.created, 0.0) * 1000);
  return client.create_run(experiment, *info.group, start_ms, tags);
}

}  // namespace

bool has_mlflow_parent(const RunInfo& info) {
  return info.group && info.job_type && info.id != info.job_id;
}

MlflowRun open_mlflow_parent(MlflowClient& client, const std::filesystem::path& run_dir,
                             const std::string& experiment, const RunInfo& info, MlflowTags tags) {
  const auto dir = run_dir / "sinks" / "mlflow";
  make_directories(dir);
  const auto lock = lock_parent(dir / "parent.lock");
  const Json place = {{"server", client.name()}, {"experiment_id", experiment}};
  const auto file = dir / "parent.json";
  if (const auto id = stored_run_id(file, place); !id.empty())
    if (auto run = client.run(id)) return *run;
  auto run = find_or_create_parent(client, experiment, info, std::move(tags));
  write_file_durably(file, Json{{"place", place}, {"run_id", run.id}}.dump(1) + "\n");
  return run;
}

void update_mlflow_parent_status(MlflowClient& client, const std::string& experiment,
                                 const std::string& parent, int64_t end_ms) {
  const auto children = client.runs_with(experiment, {{"mlflow.parentRunId", parent}});
  const auto any_has = [&](const char* status) {
    return std::ranges::find(children, status, &MlflowRun::status) != children.end();
  };
  if (any_has("RUNNING")) return;
  client.set_status(parent,
                    any_has("FAILED")   ? "FAILED"
                    : any_has("KILLED") ? "KILLED"
                                        : "FINISHED",
                    end_ms);
}

}  // namespace lockstep::tracking
