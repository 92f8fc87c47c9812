// Handlers of the run list and of all runs.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "catalog/json_text.h"
#include "catalog/run_json.h"
#include "catalog/run_logs.h"
#include "core/printable.h"
#include "dashboard/api/handlers.h"
#include "dashboard/filter/run_field.h"
#include "dashboard/filter/run_filter.h"
#include "lockstep/version.h"
#include "tracking/log/unix_time.h"

namespace lockstep::dashboard {
namespace {

constexpr size_t kMaxRows = 1000, kMaxColumns = 100, kMaxAlerts = 1000;

Json content_json(const FieldContent& content) {
  if (const auto* number = std::get_if<double>(&content)) return catalog::number_value(*number);
  if (const auto* yes = std::get_if<bool>(&content)) return *yes;
  if (const auto* text = std::get_if<std::string>(&content)) return *text;
  return nullptr;
}

RunField parse_field(const std::string& text) {
  const auto field = RunField::parse(text);
  if (!field) throw bad_request(fmt::format("unknown field '{}'", printable(text)));
  return *field;
}

// In both directions: runs with a value, then those with NaN, then those without a value.
int sort_class(const FieldContent& content) {
  if (std::holds_alternative<std::monostate>(content)) return 2;
  const auto* number = std::get_if<double>(&content);
  return number && std::isnan(*number) ? 1 : 0;
}

std::vector<RunField> requested_columns(const ApiRequest& request) {
  std::vector<RunField> columns;
  for (const auto& column : request.all("column")) columns.push_back(parse_field(column));
  if (columns.size() > kMaxColumns)
    throw bad_request(fmt::format("more than {} columns", kMaxColumns));
  return columns;
}

void sort_by_field(std::vector<catalog::RunSnapshot>& runs, const std::string& word,
                   const catalog::NameTable& names, double now) {
  const bool descending = word.starts_with('-');
  const auto field = parse_field(descending ? word.substr(1) : word);
  std::vector<std::pair<FieldContent, catalog::RunSnapshot>> keyed;
  keyed.reserve(runs.size());
  for (auto& run : runs) keyed.emplace_back(field.value(*run, names, now), run);
  std::ranges::stable_sort(keyed, [&](const auto& a, const auto& b) {
    const int a_class = sort_class(a.first), b_class = sort_class(b.first);
    if (a_class != b_class || a_class > 0) return a_class < b_class;
    return descending ? b.first < a.first : a.first < b.first;
  });
  for (size_t i = 0; i < runs.size(); ++i) runs[i] = std::move(keyed[i].second);
}

std::vector<std::string> split_words(const std::string& text) {
  std::vector<std::string> words;
  int depth = 0;
  std::string word;
  for (const char c : text) {
    depth += c == '(' ? 1 : c == ')' ? -1 : 0;
    if (c == ',' && depth == 0) {
      words.push_back(std::move(word));
      word.clear();
    } else {
      word += c;
    }
  }
  words.push_back(std::move(word));
  std::erase(words, "");
  return words;
}

struct FieldUse {
  size_t runs = 0;
  std::set<catalog::FieldValue::Type> types;
  catalog::FieldValue first;
  bool differs = false;

  void add(const catalog::FieldValue& value) {
    if (runs++ == 0) first = value;
    types.insert(value.type);
    differs |= value.type != first.type || value.text != first.text || value.number != first.number;
  }
};

const char* type_name(const std::set<catalog::FieldValue::Type>& types) {
  if (types.size() != 1) return "mixed";
  switch (*types.begin()) {
    case catalog::FieldValue::Type::Number: return "number";
    case catalog::FieldValue::Type::Bool: return "bool";
    default: return "text";
  }
}

// Throws ApiError(400, bad_filter).
std::vector<catalog::RunSnapshot> matching_runs(Dashboard& dashboard, const std::string& filter,
                                                std::vector<catalog::RunSnapshot> runs) {
  try {
    const RunFilter run_filter(filter, tracking::unix_now());
    std::erase_if(runs, [&](const catalog::RunSnapshot& run) {
      return !run_filter.matches(*run, dashboard.catalog.names());
    });
  } catch (const FilterError& error) {
    throw ApiError(400, "bad_filter", error.what(), {{"column", error.column}});
  }
  return runs;
}

}  // namespace

Json run_row(const catalog::RunSummary& run, double now) {
  const auto end = run.end.value_or(RunEnd{.state = run.state});
  const bool ended = has_ended(run.state);
  auto row = catalog::run_json(run.info, end);
  row.update({{"signal", ended && end.signal ? Json(*end.signal) : Json(nullptr)},
              {"failed_rank", ended && end.rank ? Json(*end.rank) : Json(nullptr)},
              {"reason", ended ? end.reason : ""},
              {"created", catalog::number_value(run.info.created)},
              {"updated", catalog::number_value(run.updated)},
              {"duration", catalog::number_value(run.duration(now))},
              {"host", run.info.host},
              {"world_size", run.info.world_size},
              {"num_ranks", run.num_ranks},
              {"step", run.step},
              {"epoch", catalog::number_value(run.epoch)},
              {"planned", to_json(run.info.planned)},
              {"tags", run.tags.tags},
              {"note", run.tags.note},
              {"num_alerts", run.num_alerts},
              {"problems", run.problems()},
              {"version", run.version}});
  return row;
}

Json progress_json(const catalog::RunCatalog& catalog) {
  const auto progress = catalog.progress();
  return {{"done", progress.done}, {"total", progress.total}};
}

Json changes_json(const catalog::CatalogChanges& changes, const catalog::RunCatalog& catalog) {
  auto rows = Json::array();
  const auto now = tracking::unix_now();
  for (const auto& run : changes.runs) rows.push_back(run_row(*run, now));
  return {{"seq", changes.number},
          {"runs", rows},
          {"removed", changes.removed},
          {"indexing", progress_json(catalog)},
          {"reset", changes.reset}};
}

std::vector<catalog::RunSnapshot> filtered_runs(Dashboard& dashboard, const std::string& filter) {
  return matching_runs(dashboard, filter, dashboard.catalog.all());
}

ApiResponse get_server(Dashboard& dashboard, const ApiRequest& request) {
  return json_response(
      {{"version", kVersion},
       {"dir", dashboard.catalog.directory().string()},
       {"seq", dashboard.catalog.number()},
       {"indexing", progress_json(dashboard.catalog)},
       {"limits", {{"points", kMaxPoints}, {"curves", kMaxCurves}, {"streams", kMaxStreams}}},
       {"actions", dashboard.actions && request.may_write},
       {"token", dashboard.token},
       {"user", request.user}});
}

ApiResponse get_runs(Dashboard& dashboard, const ApiRequest& request) {
  const auto number = dashboard.catalog.number();
  const auto now = tracking::unix_now();
  const auto& names = dashboard.catalog.names();
  auto runs = filtered_runs(dashboard, request.param("filter").value_or(""));
  auto words = split_words(request.param("sort").value_or("-created"));
  std::ranges::reverse(words);  // stable sorts: the last one takes precedence
  for (const auto& word : words) sort_by_field(runs, word, names, now);
  const auto columns = requested_columns(request);
  const auto offset = std::min(request.count("offset", 0, SIZE_MAX / 2), runs.size());
  const auto limit = request.count("limit", 100, kMaxRows);
  auto rows = Json::array();
  for (size_t i = offset; i < std::min(offset + limit, runs.size()); ++i) {
    auto row = run_row(*runs[i], now);
    auto values = Json::object();
    for (const auto& column : columns) {
      auto content = content_json(column.value(*runs[i], names, now));
      if (!content.is_null()) values[column.text()] = std::move(content);
    }
    row["values"] = std::move(values);
    rows.push_back(std::move(row));
  }
  const auto progress = progress_json(dashboard.catalog);
  return json_response({{"total", progress["total"]},
                        {"matching", runs.size()},
                        {"offset", offset},
                        {"seq", number},
                        {"indexing", progress},
                        {"runs", rows}});
}

ApiResponse get_fields(Dashboard& dashboard, const ApiRequest& request) {
  const auto& names = dashboard.catalog.names();
  std::map<uint32_t, FieldUse> config;
  std::map<uint32_t, size_t> metrics;
  const auto runs = filtered_runs(dashboard, request.param("filter").value_or(""));
  for (const auto& run : runs) {
    for (const auto& [name, value] : run->config) config[name].add(value);
    std::set<uint32_t> seen;
    for (const auto& source : run->sources)
      for (const auto& metric : source.metrics)
        if (metric.count > 0 && seen.insert(metric.name).second) ++metrics[metric.name];
  }
  std::map<std::string, Json> fields;
  const auto add = [&](const std::string& field, const char* type, size_t count) {
    fields[field] = {{"field", field}, {"type", type}, {"runs", count}};
  };
  for (const auto& [name, use] : config) {
    const auto field = "config." + names.text(name);
    add(field, type_name(use.types), use.runs);
    fields[field]["differs"] = use.differs || use.runs < runs.size();
  }
  for (const auto& [name, count] : metrics) add("metric." + names.text(name), "number", count);
  auto list = Json::array();
  for (const auto& name : plain_fields()) {
    static const std::set<std::string> kTexts = {"id",   "name", "group", "job_type", "state",
                                                 "host", "note", "tag",   "reason"};
    list.push_back({{"field", name},
                    {"type", kTexts.contains(name) ? "text" : "number"},
                    {"runs", runs.size()}});
  }
  for (auto& [name, field] : fields) list.push_back(std::move(field));
  return json_response({{"fields", list}});
}

namespace {

struct Spread {
  double sum = 0, min = 0, max = 0;
  size_t count = 0;

  void add(double value) {
    if (value != value) return;
    min = count == 0 ? value : std::min(min, value);
    max = count == 0 ? value : std::max(max, value);
    sum += value;
    ++count;
  }

  Json json() const {
    return {{"mean", catalog::number_value(sum / static_cast<double>(count))},
            {"min", catalog::number_value(min)},
            {"max", catalog::number_value(max)},
            {"count", count}};
  }
};

struct GroupOfRuns {
  Json json;
  std::vector<Spread> columns;
};

}  // namespace

ApiResponse get_groups(Dashboard& dashboard, const ApiRequest& request) {
  const auto columns = requested_columns(request);
  const auto field = parse_field(request.param("by").value_or("group"));
  const auto& names = dashboard.catalog.names();
  const auto now = tracking::unix_now();
  std::vector<GroupOfRuns> groups;  // by their newest run
  std::map<std::string, size_t> place;
  for (const auto& run : filtered_runs(dashboard, request.param("filter").value_or(""))) {
    auto values = field.values(*run, names, now);
    if (values.empty()) values.emplace_back();
    for (const auto& value : values) {
      const auto json = content_json(value);
      const auto [it, is_new] = place.try_emplace(catalog::to_text(json), groups.size());
      if (is_new)
        groups.push_back(
            {Json{{"value", json}, {"runs", 0}, {"states", Json::object()}, {"ids", Json::array()}},
             std::vector<Spread>(columns.size())});
      auto& group = groups[it->second];
      group.json["runs"] = group.json["runs"].get<size_t>() + 1;
      auto& states = group.json["states"];
      const auto* state = state_name(run->state);
      states[state] = states.value(state, 0) + 1;
      group.json["ids"].push_back(run->id);
      for (size_t i = 0; i < columns.size(); ++i) {
        const auto content = columns[i].value(*run, names, now);
        if (const auto* number = std::get_if<double>(&content)) group.columns[i].add(*number);
      }
    }
  }
  auto list = Json::array();
  for (auto& group : groups) {
    for (size_t i = 0; i < columns.size(); ++i)
      if (group.columns[i].count > 0)
        group.json["values"][columns[i].text()] = group.columns[i].json();
    list.push_back(std::move(group.json));
  }
  return json_response({{"groups", list}});
}

ApiResponse get_changes(Dashboard& dashboard, const ApiRequest& request) {
  const auto since = request.number("since").value_or(0);
  const auto number = since > 0 && since < 1e18 ? static_cast<uint64_t>(since) : 0;
  return json_response(changes_json(dashboard.catalog.changes_since(number), dashboard.catalog));
}

Json alert_json(const std::string& run, const std::string& source, const Alert& alert) {
  return {{"run", run},
          {"source", source},
          {"time", catalog::number_value(alert.time)},
          {"level", level_name(alert.level)},
          {"title", alert.title},
          {"text", alert.text},
          {"step", alert.step ? Json(*alert.step) : Json(nullptr)}};
}

ApiResponse get_alerts(Dashboard& dashboard, const ApiRequest& request) {
  const auto limit = request.count("limit", 100, kMaxAlerts);
  const auto runs =
      request.params.contains("run") ? requested_runs(dashboard, request) : dashboard.catalog.all();
  std::vector<std::pair<double, Json>> alerts;
  for (const auto& run : runs)
    for (const auto& source : run->sources)
      for (const auto& alert : source.alerts)
        alerts.emplace_back(alert.time, alert_json(run->id, source.source, alert));
  std::ranges::stable_sort(alerts, std::greater(), [](const auto& alert) { return alert.first; });
  auto list = Json::array();
  for (size_t i = 0; i < std::min(limit, alerts.size()); ++i)
    list.push_back(std::move(alerts[i].second));
  return json_response({{"alerts", list}});
}

catalog::RunSnapshot require_run(Dashboard& dashboard, const std::string& id) {
  auto run = dashboard.catalog.find(id);
  if (!run) throw not_found(fmt::format("run '{}' not found", printable(id)));
  return run;
}

std::vector<catalog::RunSnapshot> requested_runs(Dashboard& dashboard, const ApiRequest& request) {
  const auto filter = request.param("filter");
  const auto ids = request.all("run");
  if (ids.empty() && !filter) throw bad_request("missing parameter: run=ID or filter=EXPRESSION");
  if (ids.empty()) return filtered_runs(dashboard, *filter);
  std::vector<catalog::RunSnapshot> runs;
  for (const auto& id : ids) runs.push_back(require_run(dashboard, id));
  return filter ? matching_runs(dashboard, *filter, std::move(runs)) : runs;
}

std::shared_ptr<catalog::RunLogs> open_logs(Dashboard& dashboard, const std::string& id) {
  auto logs = dashboard.catalog.open(id);
  if (!logs) throw not_found(fmt::format("run '{}' not found", printable(id)));
  return logs;
}

}  // namespace lockstep::dashboard
