#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ctime>

#include "cli/runs_view.h"
#include "tracking/run_directory.h"
#include "tracking/run_tags.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

Json text_or_null(const std::optional<std::string>& text) {
  return text ? Json(*text) : Json(nullptr);
}

Json iso_time(double unix_seconds) {
  // Outside of the years 1970 to 9999 it is no time that a run was made at.
  if (!(unix_seconds > 0 && unix_seconds < 253402300800.0)) return nullptr;
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(static_cast<std::time_t>(unix_seconds)));
}

Json metrics_json(const RunRecord& record) {
  auto json = Json::object();
  for (const auto& [name, metric] : record.metrics)
    json[name] = {{"last", number_json(metric.last)},
                  {"min", number_json(metric.min)},
                  {"max", number_json(metric.max)},
                  {"step", metric.step},
                  {"count", metric.count}};
  return json;
}

Json rank_json(const RunRecord& record) {
  return {{"id", record.info.id},
          {"rank", record.info.rank},
          {"node_rank", record.info.node_rank},
          {"local_rank", record.info.local_rank},
          {"host", record.info.host},
          {"pid", record.info.pid},
          {"state", state_name(record.end.state)},
          {"summary", summary_json(record)}};
}

Json checkpoints_json(const fs::path& run_dir) {
  std::vector<std::string> paths;
  std::error_code error;
  for (fs::directory_iterator it(checkpoints_path(run_dir), error), end; !error && it != end;
       it.increment(error))
    if (it->is_directory(error) && !it->path().filename().string().starts_with('.'))
      paths.push_back(it->path().string());
  std::ranges::sort(paths, [](const auto& a, const auto& b) {
    return a.size() != b.size() ? a.size() < b.size() : a < b;
  });
  return paths;
}

const RunEnd& worst_end(const std::vector<RunRecord>& records) {
  const auto badness = [](const RunRecord& record) { return severity(record.end.state); };
  return std::ranges::max_element(records, {}, badness)->end;
}

// The first rank's view, as the whole job's: its id and name, and the end of the rank that fared
// worst.
RunRecord job_record(const std::vector<RunRecord>& records) {
  auto job = records.front();
  if (records.size() == 1) return job;
  job.end = worst_end(records);
  job.info.id = job.info.job_id;
  if (const auto written = read_job(job.dir)) job.info.name = written->name;
  return job;
}

Json finite_json(const Json& json) {
  if (json.is_number_float()) return number_json(json.get<double>());
  if (!json.is_structured()) return json;
  auto copy = json;
  for (auto& member : copy) member = finite_json(member);
  return copy;
}

}  // namespace

RunState job_state(const std::vector<RunRecord>& records) { return worst_end(records).state; }

Json number_json(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}

Json summary_json(const RunRecord& record) {
  auto json = Json::object();
  for (const auto& [name, metric] : record.metrics) json[name] = number_json(metric.last);
  json.update(finite_json(record.summary));
  return json;
}

Json entry_json(const RunRecord& record) {
  const auto& info = record.info;
  Json json = {{"id", info.id},
               {"name", info.name},
               {"group", text_or_null(info.group)},
               {"job_type", text_or_null(info.job_type)},
               {"state", state_name(record.end.state)},
               {"exit", has_ended(record.end.state) ? Json(record.end.exit_code) : Json(nullptr)},
               {"created", iso_time(info.created)},
               {"rank", info.rank},
               {"world_size", info.world_size},
               {"dir", record.dir.string()},
               {"step", record.step},
               {"planned", to_json(info.planned)},
               {"summary", summary_json(record)}};
  auto notes = record.notes;
  const auto tags = read_run_tags(record.dir);
  if (!tags.tags.empty()) json["tags"] = tags.tags;
  if (!tags.note.empty()) json["note"] = tags.note;
  if (!tags.problem.empty()) notes.push_back(tags.problem);
  if (!notes.empty()) json["notes"] = notes;
  return json;
}

Json page_json(const std::vector<RunRecord>& records) {
  const auto first = job_record(records);
  auto json = entry_json(first);
  json["job_id"] = first.info.job_id;
  json["reason"] = first.end.reason;
  if (first.end.signal) json["signal"] = *first.end.signal;
  if (first.end.rank) json["failed_rank"] = *first.end.rank;
  json["host"] = first.info.host;
  json["command"] = first.info.command;
  json["config"] = finite_json(first.config);
  json["metrics"] = metrics_json(first);
  json["ranks"] = Json::array();
  for (const auto& record : records) json["ranks"].push_back(rank_json(record));
  std::error_code ignored;
  const auto logs = logs_path(first.dir);
  json["logs"] = fs::is_directory(logs, ignored) ? Json(logs.string()) : Json(nullptr);
  json["checkpoints"] = checkpoints_json(first.dir);
  return json;
}

std::string json_text(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace lockstep
