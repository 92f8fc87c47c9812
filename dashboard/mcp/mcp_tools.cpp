#include "dashboard/mcp/mcp_tools.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <set>

#include "catalog/run_list.h"
#include "core/config/nearest_name.h"
#include "core/printable.h"
#include "lockstep/config_fields.h"
#include "lockstep/error.h"

namespace lockstep::dashboard {
namespace {

using Clock = std::chrono::steady_clock;
using Params = std::multimap<std::string, std::string>;

constexpr auto kReadTimeout = std::chrono::seconds(10);
constexpr int kMinPoints = 10, kMaxReadPoints = 500;  // a curve fits a result

struct ListRuns {
  std::string filter, order = "-created";
  std::vector<std::string> columns;
  int64_t limit = 20, offset = 0;
};
template <class V>
void fields(V& v, ListRuns& c) {
  v("filter", c.filter,
    "words to search, or an expression such as: state = failed and eval/loss < 0.2 and "
    "config.optimizer.lr >= 0.1 and created > 7d");
  v("order", c.order, "field to sort by, such as eval/loss; -FIELD: descending");
  v("columns", c.columns,
    "fields to return as values, such as config.optimizer.lr, eval/accuracy or min(train/loss)");
  v("limit", c.limit, "number of runs", at_least(1), at_most(1000));
  v("offset", c.offset, "runs to skip", at_least(0));
}

struct DescribeRun {
  std::string run, metrics;
};
template <class V>
void fields(V& v, DescribeRun& c) {
  v("run", c.run, "id of the run, or a unique prefix", required());
  v("metrics", c.metrics, "only metrics whose name contains this");
}

enum class CurveX { Step, Epoch, Time };
constexpr auto choices(CurveX) { return std::array{"step", "epoch", "time"}; }

struct ReadMetrics {
  std::string run;
  std::vector<std::string> metrics, sources;
  int64_t points = 100;
  CurveX x = CurveX::Step;
  std::optional<double> from, to;
};
template <class V>
void fields(V& v, ReadMetrics& c) {
  v("run", c.run, "id of the run, or a unique prefix", required());
  v("metrics", c.metrics, "names, such as train/loss", required());
  v("points", c.points, "largest number of points of a curve", at_least(kMinPoints),
    at_most(kMaxReadPoints));
  v("x", c.x, "horizontal axis; time: unix seconds");
  v("from", c.from, "smallest x");
  v("to", c.to, "largest x");
  v("sources", c.sources,
    "such as rank-1 or node-0; ranks: all ranks. Default: the first that has the metric");
}

struct CompareRuns {
  std::vector<std::string> runs;
  std::string metrics;
};
template <class V>
void fields(V& v, CompareRuns& c) {
  v("runs", c.runs, "ids of 2 to 50 runs, or unique prefixes", required());
  v("metrics", c.metrics, "only metrics whose name contains this");
}

enum class LogStream { Stdout, Stderr };
constexpr auto choices(LogStream) { return std::array{"stdout", "stderr"}; }

struct ReadLog {
  std::string run;
  int64_t printer = 0, lines = 100;
  LogStream stream = LogStream::Stdout;
  std::optional<int64_t> attempt;
};
template <class V>
void fields(V& v, ReadLog& c) {
  v("run", c.run, "id of the run, or a unique prefix", required());
  v("rank", c.printer, "the rank that printed", at_least(0));
  v("stream", c.stream, "standard output or standard error");
  v("lines", c.lines, "number of last lines", at_least(1), at_most(1000));
  v("attempt", c.attempt, "start of the ranks, from 0. Default: the last");
}

struct ListAlerts {
  std::string run;
  int64_t limit = 20;
};
template <class V>
void fields(V& v, ListAlerts& c) {
  v("run", c.run, "id of the run, or a unique prefix. Default: all runs");
  v("limit", c.limit, "number of alerts", at_least(1), at_most(1000));
}

// Arguments, for the reader of run files. `origin` precedes error messages.
ConfigNode node_of(const Json& json, const std::string& origin) {
  ConfigNode node;
  node.origin = origin;
  if (json.is_object()) {
    node.kind = ConfigNode::Kind::Map;
    for (const auto& [key, value] : json.items())
      node.members.emplace_back(key, node_of(value, origin));
  } else if (json.is_array()) {
    node.kind = ConfigNode::Kind::List;
    for (const auto& item : json) node.items.push_back(node_of(item, origin));
  } else if (!json.is_null()) {
    node.kind = ConfigNode::Kind::Scalar;
    node.quoted = json.is_string();
    node.scalar = json.is_string() ? json.get<std::string>() : json.dump();
    // 10.0 is an integer in JSON Schema.
    if (json.is_number_float() && node.scalar.ends_with(".0"))
      node.scalar.resize(node.scalar.size() - 2);
  }
  return node;
}

// The response of GET `path`. Throws Config with the message of an error response.
Json get(Dashboard& dashboard, const std::string& path, const Params& params = {}) {
  const auto response = handle_api_request(dashboard, {.path = path, .params = params});
  auto json = Json::parse(response.body);
  if (response.status < 400) return json;
  const auto& error = json["error"];
  const auto message = error["message"].get<std::string>();
  if (error.contains("column"))
    throw config_error(fmt::format("filter, column {}: {}", error["column"].dump(), message));
  throw config_error(message);
}

// After a start, lists would be incomplete. If it takes longer, "indexing" of the response says so.
void wait_until_read(const catalog::RunCatalog& catalog) {
  const auto until = Clock::now() + kReadTimeout;
  while (Clock::now() < until) {
    const auto number = catalog.number();
    const auto progress = catalog.progress();
    if (progress.done == progress.total) return;
    catalog.wait(number, std::chrono::milliseconds(100));
  }
}

// The id of a run from its id or a unique prefix, as in `lockstep runs`. Throws Config.
std::string run_id(Dashboard& dashboard, const std::string& given) {
  auto& catalog = dashboard.catalog;
  if (catalog.find(given)) return given;
  const auto progress = catalog.progress();
  if (progress.done == progress.total && !given.empty()) {
    std::vector<std::string> ids;
    for (const auto& run : catalog.all())
      if (run->id.starts_with(given)) ids.push_back(run->id);
    if (ids.size() == 1) return ids.front();
  }
  // Also finds ids of ranks and paths, but reads the logs of all runs.
  return catalog::find_run_directory(catalog.directory(), given).filename().string();
}

// The rows of the list of metrics whose name contains `text`.
Json metrics_with(const Json& metrics, const std::string& text) {
  auto list = Json::array();
  for (const auto& metric : metrics)
    if (metric["name"].get_ref<const std::string&>().find(text) != std::string::npos)
      list.push_back(metric);
  return list;
}

Json list_runs(Dashboard& dashboard, const ListRuns& arguments) {
  wait_until_read(dashboard.catalog);
  Params params = {{"filter", arguments.filter},
                   {"sort", arguments.order},
                   {"limit", std::to_string(arguments.limit)},
                   {"offset", std::to_string(arguments.offset)}};
  for (const auto& column : arguments.columns) params.emplace("column", column);
  return get(dashboard, "/api/runs", params);
}

Json describe_run(Dashboard& dashboard, const DescribeRun& arguments) {
  const auto id = run_id(dashboard, arguments.run);
  auto run = get(dashboard, "/api/runs/" + id);
  run.erase("defaults");  // unknown without the trainer
  // The members of "metrics" have those of the first source; read_metrics returns the others.
  for (auto& source : run["sources"]) source.erase("summary");
  run["metrics"] = metrics_with(run["metrics"], arguments.metrics);
  auto list = Json::array();
  const auto answer = get(dashboard, "/api/artifacts", {{"run", id}});
  for (const auto& artifact : answer.at("artifacts")) {
    auto& row = list.emplace_back(Json::object());
    for (const auto* key : {"name", "type", "version", "aliases", "bytes", "created", "made_by"})
      row[key] = artifact.at(key);
  }
  run["artifacts"] = std::move(list);
  return run;
}

// Throws Config if a metric has no curve in `series`.
void verify_metrics(Dashboard& dashboard, const std::string& id, const ReadMetrics& arguments,
                    const Json& series) {
  std::set<std::string> found, known;
  for (const auto& curve : series) found.insert(curve["metric"].get<std::string>());
  const auto run = dashboard.catalog.find(id);
  const auto& names = dashboard.catalog.names();
  if (run)
    for (const auto& source : run->sources)
      for (const auto& metric : source.metrics) known.insert(names.text(metric.name));
  for (const auto& metric : arguments.metrics) {
    if (found.contains(metric)) continue;
    if (known.contains(metric))
      throw config_error(fmt::format(
          "sources: none of {} has the metric '{}' of run '{}'",
          printable(fmt::format("{}", fmt::join(arguments.sources, ", "))), printable(metric), id));
    const auto nearest = nearest_name(metric, {known.begin(), known.end()});
    throw config_error(fmt::format(
        "run '{}' has no metric '{}'{}", id, printable(metric),
        nearest ? fmt::format("; did you mean '{}'?", *nearest) : "; see describe_run"));
  }
}

Json read_metrics(Dashboard& dashboard, const ReadMetrics& arguments) {
  if (arguments.metrics.empty())
    throw config_error("read_metrics: metrics: expected at least one name");
  const auto id = run_id(dashboard, arguments.run);
  // Each column of the curve has two points; the ends of the range and one point beyond each are
  // added.
  Params params = {{"run", id},
                   {"x", name_of(arguments.x)},
                   {"points", std::to_string((arguments.points - 4) / 2)}};
  for (const auto& metric : arguments.metrics) params.emplace("metric", metric);
  for (const auto& source : arguments.sources) params.emplace("source", source);
  if (arguments.from) params.emplace("from", fmt::format("{}", *arguments.from));
  if (arguments.to) params.emplace("to", fmt::format("{}", *arguments.to));
  auto response = get(dashboard, "/api/series", params);
  verify_metrics(dashboard, id, arguments, response["series"]);
  return response;
}

Json compare_runs(Dashboard& dashboard, const CompareRuns& arguments) {
  Params params;
  for (const auto& run : arguments.runs) params.emplace("run", run_id(dashboard, run));
  if (arguments.runs.empty()) throw config_error("compare_runs: runs: expected 2 to 50 ids");
  auto comparison = get(dashboard, "/api/compare", params);
  for (const auto* part : {"config", "environment"}) {
    auto different = Json::array();
    for (const auto& row : comparison[part])
      if (row["differs"].get<bool>())
        different.push_back(
            {{"key", row["key"]}, {"values", row["values"]}, {"missing", row["missing"]}});
    comparison[part] = std::move(different);
  }
  comparison["metrics"] = metrics_with(comparison["metrics"], arguments.metrics);
  for (auto& metric : comparison["metrics"])
    for (auto& value : metric["values"])
      if (value.is_object()) value = Json(value["last"]);
  return comparison;
}

Json read_log(Dashboard& dashboard, const ReadLog& arguments) {
  const auto id = run_id(dashboard, arguments.run);
  const auto streams = get(dashboard, "/api/runs/" + id)["console"];
  Json chosen;
  std::set<int64_t> ranks;
  for (const auto& stream : streams) {
    ranks.insert(stream["rank"].get<int64_t>());
    const auto attempt = stream["attempt"].get<int64_t>();
    if (stream["rank"] == arguments.printer && stream["kind"] == name_of(arguments.stream) &&
        attempt == arguments.attempt.value_or(attempt) &&
        (chosen.is_null() || chosen["attempt"].get<int64_t>() <= attempt))
      chosen = stream;
  }
  if (ranks.empty())
    throw config_error(
        fmt::format("run '{}' has no log: 'lockstep launch' records what the ranks print", id));
  if (chosen.is_null())
    throw config_error(
        fmt::format("run '{}' has no {} of rank {}{}; ranks with a log: {}", id,
                    name_of(arguments.stream), arguments.printer,
                    arguments.attempt ? fmt::format(" in attempt {}", *arguments.attempt) : "",
                    fmt::join(ranks, ", ")));
  auto log = get(
      dashboard, "/api/runs/" + id + "/console",
      {{"stream", chosen["stream"].get<std::string>()}, {"tail", std::to_string(arguments.lines)}});
  log.update({{"run", id}, {"rank", arguments.printer}, {"attempt", chosen["attempt"]}});
  return log;
}

Json list_alerts(Dashboard& dashboard, const ListAlerts& arguments) {
  Params params = {{"limit", std::to_string(arguments.limit)}};
  if (arguments.run.empty())
    wait_until_read(dashboard.catalog);
  else
    params.emplace("run", run_id(dashboard, arguments.run));
  return get(dashboard, "/api/alerts", params);
}

// A tool whose arguments are an Arguments.
template <class Arguments>
McpTool make_tool(Dashboard& dashboard, const std::string& name, const std::string& title,
                  const std::string& description, Json (*call)(Dashboard&, const Arguments&)) {
  return {.name = name,
          .title = title,
          .description = description,
          .input_schema = ConfigDescriber::describe(Arguments()),
          .call = [&dashboard, name, call](const Json& json) {
            Arguments arguments;
            read_fields(node_of(json, name), "", arguments);
            return call(dashboard, arguments);
          }};
}

}  // namespace

std::vector<McpTool> mcp_tools(Dashboard& dashboard) {
  return {
      make_tool(dashboard, "list_runs", "List runs",
                "Lists runs, newest first, with state, step, times, tags and problems.", list_runs),
      make_tool(dashboard, "describe_run", "Describe a run",
                "Returns one run: configuration, state and reason of its end, ranks, summary and "
                "last values of metrics, git state, machine, checkpoints, artifacts and alerts.",
                describe_run),
      make_tool(dashboard, "read_metrics", "Read metrics of a run",
                "Returns curves of metrics. Long curves are downsampled to the smallest and the "
                "largest value of equal ranges of x; \"total\" counts all values.",
                read_metrics),
      make_tool(dashboard, "compare_runs", "Compare runs",
                "Returns the differences in configuration and environment, and the last value of "
                "each metric, in the order of the runs.",
                compare_runs),
      make_tool(dashboard, "read_log", "Read the log of a rank",
                "Returns the last lines that a rank printed.", read_log),
      make_tool(dashboard, "list_alerts", "List alerts",
                "Lists alerts of one run or of all runs, newest first.", list_alerts),
  };
}

}  // namespace lockstep::dashboard
