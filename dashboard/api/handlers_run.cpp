// Handlers of one run, and of comparisons.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "catalog/json_text.h"
#include "catalog/run_json.h"
#include "core/bounded_json.h"
#include "core/system/durable_file.h"
#include "dashboard/api/config_defaults.h"
#include "dashboard/api/console_files.h"
#include "dashboard/api/handlers.h"
#include "lockstep/error.h"
#include "tracking/log/unix_time.h"
#include "tracking/runs/code_state.h"
#include "tracking/runs/rank_losses.h"
#include "tracking/runs/run_directory.h"
#include "tracking/runs/software.h"
#include "tracking/runs/stop_request.h"

namespace lockstep::dashboard {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxCompared = 50;

const char* media_name(catalog::MediaTotals::Kind kind) {
  switch (kind) {
    case catalog::MediaTotals::Kind::Image: return "image";
    case catalog::MediaTotals::Kind::Histogram: return "histogram";
    case catalog::MediaTotals::Kind::Table: return "table";
    case catalog::MediaTotals::Kind::Clip: return "clip";
  }
  return "image";
}

Json all_totals_json(const catalog::MetricTotals& metric) {
  auto json = totals_json(metric);
  json["mean"] = catalog::number_value(metric.mean());
  json["num_nan"] = metric.num_nan;
  return json;
}

// A run may have tens of thousands of metrics. Per-metric data is therefore written as text: JSON
// objects need a search for each added member, and ten times the memory.
void append_summary(std::string& text, const catalog::SourceSummary& source,
                    const catalog::NameTable& names) {
  std::map<std::string_view, double> values;
  for (const auto& metric : source.metrics)
    if (metric.count > 0) values[names.text(metric.name)] = metric.last;
  for (const auto& [name, value] : source.summary) values[names.text(name)] = value;
  text += '{';
  for (bool is_first = true; const auto& [name, value] : values) {
    if (!std::exchange(is_first, false)) text += ',';
    catalog::append_text(text, name);
    text += ':';
    catalog::append_number(text, value);
  }
  text += '}';
}

// Appends the object `head` with a member `name`; the caller appends its value and a '}'.
void append_open(std::string& text, const Json& head, std::string_view name) {
  const auto object = catalog::to_text(head);
  text.append(object, 0, object.size() - 1);
  text += fmt::format(",\"{}\":", name);
}

Json source_json(const catalog::SourceSummary& source) {
  Json json = {{"source", source.source},
               {"kind", source.is_node ? "node" : "rank"},
               {"id", source.info.id},
               {"name", source.info.name},
               {"node", source.info.node_rank}};
  if (!source.is_node) {
    json["rank"] = source.number;
    json["local_rank"] = source.info.local_rank;
  }
  json["host"] = source.info.host;
  json["pid"] = source.info.pid;
  json["state"] = state_name(source.state);
  json["created"] = catalog::number_value(source.info.created);
  json["updated"] = catalog::number_value(source.updated);
  json["step"] = source.step;
  json["epoch"] = catalog::number_value(source.epoch);
  return json;
}

void append_sources(std::string& text, const catalog::RunSummary& run,
                    const catalog::NameTable& names) {
  text += '[';
  for (bool is_first = true; const auto& source : run.sources) {
    if (!std::exchange(is_first, false)) text += ',';
    append_open(text, source_json(source), "summary");
    append_summary(text, source, names);
    text += '}';
  }
  text += ']';
}

// For each metric: the sources that have it, and the totals of the first.
void append_metrics(std::string& text, const catalog::RunSummary& run,
                    const catalog::NameTable& names) {
  struct MetricSources {
    const catalog::MetricTotals* totals = nullptr;
    std::vector<std::string> sources;
  };
  std::map<std::string_view, MetricSources> metrics;
  for (const auto& source : run.sources)
    for (const auto& metric : source.metrics) {
      if (metric.count == 0) continue;
      auto& entry = metrics[names.text(metric.name)];
      if (!entry.totals) entry.totals = &metric;
      entry.sources.push_back(source.source);
    }
  text += '[';
  for (bool is_first = true; const auto& [name, entry] : metrics) {
    if (!std::exchange(is_first, false)) text += ',';
    const auto slash = name.rfind('/');
    append_open(text,
                {{"name", std::string(name)},
                 {"section", std::string(name.substr(0, slash == name.npos ? 0 : slash))},
                 {"axis", name.starts_with("system/") ? "time" : "step"}},
                "sources");
    const auto totals = catalog::to_text(all_totals_json(*entry.totals));
    text += catalog::to_text(entry.sources) + ',' + totals.substr(1);
  }
  text += ']';
}

Json media_json(const catalog::RunSummary& run, const catalog::NameTable& names) {
  std::map<std::pair<catalog::MediaTotals::Kind, std::string>, Json> media;
  for (const auto& source : run.sources)
    for (const auto& totals : source.media) {
      auto& json = media[{totals.kind, names.text(totals.name)}];
      if (json.is_null())
        json = {{"kind", media_name(totals.kind)}, {"name", names.text(totals.name)},
                {"sources", Json::array()},        {"count", 0},
                {"first_step", totals.first_step}, {"last_step", totals.last_step}};
      json["sources"].push_back(source.source);
      json["count"] = json["count"].get<uint64_t>() + totals.count;
      json["first_step"] = std::min(json["first_step"].get<int64_t>(), totals.first_step);
      json["last_step"] = std::max(json["last_step"].get<int64_t>(), totals.last_step);
    }
  auto list = Json::array();
  for (auto& [name, json] : media) list.push_back(std::move(json));
  return list;
}

Json checkpoints_json_of(const fs::path& run_dir) {
  auto list = Json::array();
  for (const auto& [step, path] :
       tracking::numbered_directories(tracking::checkpoints_path(run_dir), "")) {
    bool more = false;
    uint64_t bytes = 0;
    double modified = 0;
    for (const auto& file : catalog::list_files(path, 10000, more)) {
      bytes += file.bytes;
      modified = std::max(modified, file.modified);
    }
    list.push_back({{"name", path.filename().string()},
                    {"step", step},
                    {"bytes", bytes},
                    {"modified", modified}});
  }
  return list;
}

Json path_json(const ConsoleStream& stream, const fs::path& run_dir) {
  if (stream.recorded) return nullptr;
  return stream.path.lexically_relative(run_dir).generic_string();
}

Json console_json(const catalog::RunLogs& logs) {
  auto list = Json::array();
  for (const auto& stream : console_streams(logs))
    list.push_back({{"stream", stream.name},
                    {"attempt", stream.attempt},
                    {"node", stream.node},
                    {"local_rank", stream.local_rank},
                    {"start", stream.start},
                    {"rank", stream.rank},
                    {"kind", stream.is_error ? "stderr" : "stdout"},
                    {"path", path_json(stream, logs.run_dir())},
                    {"bytes", stream.bytes},
                    {"modified", stream.modified}});
  return list;
}

// The fields of run.json that the row does not contain.
Json environment_json(const catalog::RunSummary& run) {
  static const std::set<std::string> kShown = {"id",      "name",   "group",     "job_type",
                                               "created", "job_id", "world_size"};
  auto environment = Json::object();
  try {
    const auto json = parse_json(read_file(run.dir / "run.json", 1u << 20));
    if (json.is_object())
      for (const auto& [key, value] : json.items())
        if (!kShown.contains(key)) environment[key] = catalog::finite_value(value);
  } catch (const Error&) {
    // No run.json: the event logs contain the rest.
  }
  environment.update(tracking::read_software(run.dir));
  if (const auto code = tracking::read_code_state(run.dir))
    environment["uncommitted_changes"] = tracking::describe_changes(*code);
  for (const auto& loss : tracking::read_rank_losses(run.dir))
    environment[loss.ranks.empty() ? "joined_ranks" : "lost_ranks"].push_back(describe(loss));
  return environment;
}

Json config_of(Dashboard& dashboard, const catalog::RunSummary& run) {
  const auto logs = open_logs(dashboard, run.id);
  return logs->look([](const auto& all) -> Json {
    for (const auto& log : all)
      if (!log->name().is_node && log->config().is_object())
        return catalog::finite_value(log->config());
    return Json::object();
  });
}

Json alerts_json(const catalog::RunSummary& run) {
  auto list = Json::array();
  for (const auto& source : run.sources)
    for (const auto& alert : source.alerts)
      list.push_back(alert_json(run.id, source.source, alert));
  return list;
}

Json job_summary(const catalog::RunSummary& run, const catalog::NameTable& names) {
  auto summary = Json::object();
  for (const auto& source : run.sources)
    for (const auto& [name, value] : source.summary)
      if (!summary.contains(names.text(name)))
        summary[names.text(name)] = catalog::number_value(value);
  return summary;
}

Json differences(const std::vector<std::map<std::string, Json>>& runs) {
  std::set<std::string> keys;
  for (const auto& run : runs)
    for (const auto& [key, value] : run) keys.insert(key);
  auto list = Json::array();
  for (const auto& key : keys) {
    auto values = Json::array(), missing = Json::array();
    bool differs = false;
    for (const auto& run : runs) {
      const auto it = run.find(key);
      missing.push_back(it == run.end());
      values.push_back(it == run.end() ? Json(nullptr) : it->second);
      differs = differs || it == run.end() || values.back() != values.front();
    }
    list.push_back({{"key", key}, {"differs", differs}, {"values", values}, {"missing", missing}});
  }
  return list;
}

}  // namespace

Json run_head(Dashboard& dashboard, const catalog::RunSummary& run) {
  auto json = run_row(run, tracking::unix_now());
  json["dir"] = run.dir.string();
  json["command"] = run.info.command;
  json["config"] = config_of(dashboard, run);
  json["defaults"] = default_paths(json["config"], dashboard.schema ? dashboard.schema() : "");
  json["environment"] = environment_json(run);
  json["media"] = media_json(run, dashboard.catalog.names());
  json["summary"] = job_summary(run, dashboard.catalog.names());
  json["checkpoints"] = checkpoints_json_of(run.dir);
  json["console"] = console_json(*open_logs(dashboard, run.id));
  json["alerts"] = alerts_json(run);
  uint64_t num_texts = 0;
  for (const auto& source : run.sources) num_texts += source.num_texts;
  json["num_texts"] = num_texts;
  const auto stop = tracking::read_stop_request(run.dir);
  json["stop_requested"] =
      stop ? Json{{"time", stop->time}, {"reason", stop->reason}} : Json(nullptr);
  return json;
}

std::string run_detail(const Json& head, const catalog::RunSummary& run,
                       const catalog::NameTable& names) {
  std::string text;
  append_open(text, head, "sources");
  append_sources(text, run, names);
  text += ",\"metrics\":";
  append_metrics(text, run, names);
  return text + '}';
}

ApiResponse get_code(const RunRequest& request) {
  const auto code = tracking::read_code_state(request.run->dir);
  if (!code) return json_response({{"code", nullptr}});
  auto json = tracking::summary_json(*code);
  json["diff"] = code->diff;
  return json_response({{"code", json}});
}

ApiResponse get_run(Dashboard& dashboard, const RunRequest& request) {
  const auto head = run_head(dashboard, *request.run);
  return {.body = run_detail(head, *request.run, dashboard.catalog.names())};
}

Json comparison(Dashboard& dashboard, const std::vector<catalog::RunSnapshot>& runs) {
  const auto& names = dashboard.catalog.names();
  auto rows = Json::array(), metrics = Json::array();
  std::vector<std::map<std::string, Json>> configs, environments;
  // By metric name: for each run, the totals of its first source that has the metric.
  std::map<std::string_view, std::vector<const catalog::MetricTotals*>> totals;
  for (size_t i = 0; i < runs.size(); ++i) {
    const auto& run = runs[i];
    rows.push_back(run_row(*run, tracking::unix_now()));
    configs.push_back(catalog::leaves_of(config_of(dashboard, *run)));
    environments.push_back(catalog::leaves_of(environment_json(*run)));
    for (const auto& source : run->sources)
      for (const auto& metric : source.metrics)
        if (metric.count > 0) {
          auto& of_runs = totals[names.text(metric.name)];
          of_runs.resize(runs.size());
          if (!of_runs[i]) of_runs[i] = &metric;
        }
  }
  for (const auto& [name, of_runs] : totals) {
    auto values = Json::array();
    for (const auto* metric : of_runs)
      values.push_back(metric ? all_totals_json(*metric) : Json(nullptr));
    metrics.push_back({{"name", std::string(name)}, {"values", values}});
  }
  return {{"runs", rows},
          {"config", differences(configs)},
          {"environment", differences(environments)},
          {"metrics", metrics}};
}

ApiResponse get_comparison(Dashboard& dashboard, const ApiRequest& request) {
  const auto runs = requested_runs(dashboard, request);
  if (runs.size() < 2 || runs.size() > kMaxCompared)
    throw bad_request(
        fmt::format("expected 2 to {} runs to compare, got {}", kMaxCompared, runs.size()));
  return json_response(comparison(dashboard, runs));
}

}  // namespace lockstep::dashboard
