#include "tracking/sinks/mlflow/mlflow_session.h"

#include <fmt/format.h>

#include <algorithm>

#include "lockstep/error.h"
#include "tracking/sinks/mlflow/mlflow_batch.h"
#include "tracking/sinks/mlflow/mlflow_parent.h"
#include "tracking/sinks/mlflow/mlflow_text.h"

namespace lockstep::tracking {
namespace {

constexpr auto kMlflowRunning = "RUNNING";
constexpr auto kMlflowEndTag = "lockstep.end";

std::string joined_command(const std::vector<std::string>& words) {
  std::string text;
  for (const auto& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

// Tags that the runs of a job and of its entries have in common.
MlflowTags tags_of_job(const MlflowEntry& entry) {
  const auto& info = entry.info;
  MlflowTags tags = {{"lockstep.job_id", info.job_id},
                     {"lockstep.world_size", std::to_string(info.world_size)},
                     {"mlflow.source.type", "LOCAL"}};
  if (!entry.user.empty()) tags["mlflow.user"] = entry.user;
  if (info.group) tags["lockstep.group"] = *info.group;
  if (!info.command.empty()) {
    tags["mlflow.source.name"] = info.command.front();
    tags["lockstep.command"] = joined_command(info.command);
  }
  return tags;
}

MlflowTags tags_of_entry(const MlflowEntry& entry, const std::optional<std::string>& parent) {
  const auto& info = entry.info;
  auto tags = tags_of_job(entry);
  tags["lockstep.run_id"] = info.id;
  tags["lockstep.role"] = info.job_type.value_or("run");
  tags["lockstep.rank"] = std::to_string(info.rank);
  tags["lockstep.node_rank"] = std::to_string(info.node_rank);
  tags["lockstep.local_rank"] = std::to_string(info.local_rank);
  tags["lockstep.host"] = info.host;
  tags["lockstep.pid"] = std::to_string(info.pid);
  tags["mlflow.note.content"] =
      fmt::format("Lockstep run `{}`, rank {} of {} on {}, in `{}`", info.id, info.rank,
                  info.world_size, info.host, entry.run_dir.string());
  if (parent) tags["mlflow.parentRunId"] = *parent;
  return tags;
}

MlflowTags fit_mlflow_tags(MlflowTags tags) {
  for (auto& [key, value] : tags) value = mlflow_value(value, kMlflowTagBytes);
  return tags;
}

std::string experiment_name(const MlflowSettings& settings, const MlflowEntry& entry) {
  if (settings.experiment) return *settings.experiment;
  const auto& config = entry.config;
  const bool has_name = config.is_object() && config.contains("run") && config["run"].is_object() &&
                        config["run"].contains("name") && config["run"]["name"].is_string();
  return has_name ? config["run"]["name"].get<std::string>() : entry.info.name;
}

void mark_running(MlflowClient& client, MlflowRun& run) {
  if (run.status == kMlflowRunning) return;
  client.set_status(run.id, kMlflowRunning);
  if (run.tags.contains(kMlflowEndTag)) client.set_tag(run.id, kMlflowEndTag, "none: resumed");
  run.status = kMlflowRunning;
}

MlflowRun find_or_create_run(MlflowClient& client, const MlflowSession& session,
                             const MlflowEntry& entry) {
  const auto& info = entry.info;
  const auto found = client.runs_with(session.experiment, {{"lockstep.run_id", info.id}});
  if (!found.empty()) return found.front();
  const auto start_ms = static_cast<int64_t>(std::max(info.created, 0.0) * 1000);
  return client.create_run(session.experiment, info.name, start_ms,
                           fit_mlflow_tags(tags_of_entry(entry, session.parent)));
}

// Returns nullopt if there is no stored session or it belongs to another server.
std::optional<MlflowSession> stored_session(MlflowClient& client, const Json& state) {
  if (!state.is_object() || state.value("server", "") != client.name()) return std::nullopt;
  MlflowSession session{.server = client.name(), .experiment = state.at("experiment_id")};
  const std::string id = state.at("run_id");
  auto run = client.run(id);
  if (!run) throw config_error(fmt::format("{}: the run {} was deleted", client.name(), id));
  session.run = std::move(*run);
  if (state.at("parent_id").is_string()) session.parent = state.at("parent_id");
  return session;
}

}  // namespace

Json MlflowSession::state() const {
  return {{"server", server},
          {"experiment_id", experiment},
          {"run_id", run.id},
          {"parent_id", parent ? Json(*parent) : Json(nullptr)}};
}

MlflowSession begin_mlflow_session(MlflowClient& client, const MlflowSettings& settings,
                                   const MlflowEntry& entry, const Json& state) {
  auto session = stored_session(client, state);
  if (!session) {
    session = MlflowSession{.server = client.name(),
                            .experiment = client.experiment(experiment_name(settings, entry))};
    if (has_mlflow_parent(entry.info))
      session->parent = open_mlflow_parent(client, entry.run_dir, session->experiment, entry.info,
                                           fit_mlflow_tags(tags_of_job(entry)))
                            .id;
    session->run = find_or_create_run(client, *session, entry);
  }
  mark_running(client, session->run);
  if (session->parent)
    if (auto parent = client.run(*session->parent)) mark_running(client, *parent);
  return *session;
}

void add_mlflow_params(const Json& config, const MlflowRun& run, MlflowBatch& batch) {
  for (const auto& [name, value] : mlflow_params(config)) {
    const auto known = run.params.find(name);
    if (known == run.params.end())
      batch.add_param(name, value);
    else if (known->second != value)
      batch.add_tag(mlflow_name("lockstep.param_changed." + name),
                    mlflow_value(value, kMlflowTagBytes));
  }
}

}  // namespace lockstep::tracking
