#include <fmt/chrono.h>
#include <fmt/format.h>

#include <ctime>

#include "catalog/run_json.h"
#include "cli/runs/runs_view.h"
#include "tracking/runs/code_state.h"
#include "tracking/runs/rank_losses.h"
#include "tracking/runs/run_directory.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

Json iso_time(double unix_seconds) {
  // Times outside the years 1970 to 9999 are invalid.
  if (!(unix_seconds > 0 && unix_seconds < 253402300800.0)) return nullptr;
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(static_cast<std::time_t>(unix_seconds)));
}

Json metrics_json(const catalog::RunEntry& entry) {
  auto json = Json::object();
  for (const auto& [name, metric] : entry.metrics()) json[std::string(name)] = totals_json(*metric);
  return json;
}

Json rank_json(const catalog::RunEntry& entry) {
  const auto& info = entry.info();
  return {{"id", info.id},
          {"rank", info.rank},
          {"node_rank", info.node_rank},
          {"local_rank", info.local_rank},
          {"host", info.host},
          {"pid", info.pid},
          {"state", state_name(entry.end().state)},
          {"summary", summary_json(entry)}};
}

Json checkpoints_json(const fs::path& run_dir) {
  auto paths = Json::array();
  for (const auto& [step, path] :
       tracking::numbered_directories(tracking::checkpoints_path(run_dir), ""))
    paths.push_back(path.string());
  return paths;
}

// Common fields of an entry, or of a whole job, according to `info` and `end`.
Json whole_json(const catalog::RunEntry& entry, const RunInfo& info, const RunEnd& end) {
  auto json = catalog::run_json(info, end);
  json.update({{"created", iso_time(info.created)},
               {"rank", info.rank},
               {"world_size", info.world_size},
               {"dir", entry.run->dir.string()},
               {"step", entry.step()},
               {"planned", to_json(info.planned)},
               {"summary", summary_json(entry)}});
  auto notes = entry.notes();
  const auto& tags = entry.run->tags;
  if (!tags.tags.empty()) json["tags"] = tags.tags;
  if (!tags.note.empty()) json["note"] = tags.note;
  if (!tags.problem.empty()) notes.push_back(tags.problem);
  if (!notes.empty()) json["notes"] = notes;
  return json;
}

}  // namespace

Json summary_json(const catalog::RunEntry& entry) {
  auto json = Json::object();
  for (const auto& [name, metric] : entry.metrics())
    json[std::string(name)] = catalog::number_value(metric->last);
  if (entry.rank)
    for (const auto& [name, value] : entry.rank->summary)
      json[entry.names->text(name)] = catalog::number_value(value);
  return json;
}

Json entry_json(const catalog::RunEntry& entry) {
  return whole_json(entry, entry.info(), entry.end());
}

Json page_json(const std::vector<catalog::RunEntry>& entries) {
  const auto& first = entries.front();
  const auto& run = *first.run;
  const bool is_job = entries.size() > 1;
  auto info = first.info();
  if (is_job) info.id = info.job_id;
  if (is_job && run.is_written) info.name = run.written.name;
  const auto end = is_job ? run.end.value_or(RunEnd{.state = run.state}) : first.end();
  auto json = whole_json(first, info, end);
  json["job_id"] = info.job_id;
  json["reason"] = end.reason;
  if (end.signal) json["signal"] = *end.signal;
  if (end.rank) json["failed_rank"] = *end.rank;
  json["host"] = info.host;
  json["command"] = info.command;
  json["config"] = catalog::finite_value(first.config());
  json["metrics"] = metrics_json(first);
  json["ranks"] = Json::array();
  for (const auto& entry : entries) json["ranks"].push_back(rank_json(entry));
  if (const auto code = tracking::read_code_state(run.dir))
    json["code"] = tracking::summary_json(*code);
  json["rank_losses"] = Json::array();
  for (const auto& loss : tracking::read_rank_losses(run.dir))
    json["rank_losses"].push_back(to_json(loss));
  std::error_code ignored;
  const auto logs = tracking::logs_path(run.dir);
  json["logs"] = fs::is_directory(logs, ignored) ? Json(logs.string()) : Json(nullptr);
  json["checkpoints"] = checkpoints_json(run.dir);
  return json;
}

}  // namespace lockstep::cli
