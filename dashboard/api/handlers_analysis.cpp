// Handlers of the analysis of many runs: their values in columns, and the importance of parameters.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "catalog/json_text.h"
#include "core/bounded_json.h"
#include "core/printable.h"
#include "dashboard/analysis/importance.h"
#include "dashboard/api/handlers.h"
#include "dashboard/filter/run_field.h"
#include "tracking/log/unix_time.h"

namespace lockstep::dashboard {
namespace {

constexpr size_t kMaxAnalyzed = 5000, kMaxAnalysisColumns = 100, kMaxParameters = 64;
constexpr size_t kDefaultMetrics = 24;

// One field of all runs.
struct Column {
  enum class Type { Number, Bool, Text };

  std::string field;
  Type type = Type::Number;
  std::vector<FieldContent> values;

  // Texts in alphabetical order, and the index of each run's, -1: none.
  std::pair<std::vector<std::string>, std::vector<int>> labeled() const {
    std::set<std::string> known;
    for (const auto& value : values)
      if (!std::holds_alternative<std::monostate>(value)) known.insert(text_of(value));
    std::vector<std::string> labels(known.begin(), known.end());
    std::vector<int> indices;
    for (const auto& value : values)
      indices.push_back(std::holds_alternative<std::monostate>(value)
                            ? -1
                            : static_cast<int>(std::ranges::lower_bound(labels, text_of(value)) -
                                               labels.begin()));
    return {std::move(labels), std::move(indices)};
  }

  // NaN where a run has no number.
  std::vector<double> numbers() const {
    std::vector<double> all;
    for (const auto& value : values) {
      const auto* number = std::get_if<double>(&value);
      const auto* yes = std::get_if<bool>(&value);
      all.push_back(number ? *number : yes ? static_cast<double>(*yes) : std::nan(""));
    }
    return all;
  }

 private:
  static std::string text_of(const FieldContent& content) {
    if (const auto* text = std::get_if<std::string>(&content)) return *text;
    if (const auto* yes = std::get_if<bool>(&content)) return *yes ? "true" : "false";
    return catalog::to_text(catalog::number_value(std::get<double>(content)));
  }
};

using Runs = std::vector<catalog::RunSnapshot>;

// The newest of the runs that `request` selects, and how many it selects.
std::pair<Runs, size_t> analyzed_runs(Dashboard& dashboard, const ApiRequest& request) {
  auto runs = requested_runs(dashboard, request);
  const auto matching = runs.size();
  runs.resize(std::min(runs.size(), kMaxAnalyzed));
  return {std::move(runs), matching};
}

Column column_of(const Dashboard& dashboard, const Runs& runs, const std::string& name) {
  const auto field = RunField::parse(name);
  if (!field) throw bad_request(fmt::format("unknown field '{}'", printable(name)));
  Column column{.field = name};
  std::set<size_t> kinds;
  const auto now = tracking::unix_now();
  for (const auto& run : runs) {
    column.values.push_back(field->value(*run, dashboard.catalog.names(), now));
    kinds.insert(column.values.back().index());
  }
  kinds.erase(0);  // without a value
  if (kinds.size() == 1)
    column.type = *kinds.begin() == 1   ? Column::Type::Number
                  : *kinds.begin() == 2 ? Column::Type::Bool
                                        : Column::Type::Text;
  else if (!kinds.empty())
    column.type = Column::Type::Text;
  return column;
}

Json column_json(const Column& column) {
  auto values = Json::array();
  if (column.type == Column::Type::Text) {
    const auto [labels, indices] = column.labeled();
    return {{"field", column.field}, {"type", "text"}, {"labels", labels}, {"values", indices}};
  }
  for (const auto& value : column.values) {
    const auto* number = std::get_if<double>(&value);
    const auto* yes = std::get_if<bool>(&value);
    values.push_back(number ? catalog::number_value(*number) : yes ? Json(*yes) : Json(nullptr));
  }
  return {{"field", column.field},
          {"type", column.type == Column::Type::Bool ? "bool" : "number"},
          {"values", std::move(values)}};
}

// Results first, then metrics of training, then those of the machine.
int metric_class(const std::string& name) {
  constexpr std::string_view kResults[] = {"eval/", "test/", "val/"};
  constexpr std::string_view kMachine[] = {"time/", "data/", "rank/", "system/"};
  const auto is_in = [&](std::string_view prefix) { return name.starts_with(prefix); };
  return std::ranges::any_of(kResults, is_in) ? 0 : std::ranges::any_of(kMachine, is_in) ? 2 : 1;
}

std::vector<std::pair<std::string, size_t>> metrics_of(const catalog::NameTable& names,
                                                       const Runs& runs) {
  std::map<uint32_t, size_t> counts;
  for (const auto& run : runs) {
    std::set<uint32_t> own;
    for (const auto& source : run->sources)
      for (const auto& metric : source.metrics)
        if (metric.count > 0) own.insert(metric.name);
    for (const auto name : own) ++counts[name];
  }
  std::vector<std::pair<std::string, size_t>> metrics;
  for (const auto& [name, count] : counts) metrics.emplace_back(names.text(name), count);
  std::ranges::sort(metrics, {}, [](const auto& metric) {
    return std::pair(metric_class(metric.first), metric.first);
  });
  return metrics;
}

// The keys of the configuration that are not the same in all runs.
std::vector<std::string> differing_keys(const catalog::NameTable& names, const Runs& runs) {
  std::map<uint32_t, std::pair<catalog::FieldValue, size_t>> first;
  std::set<uint32_t> differing;
  for (const auto& run : runs)
    for (const auto& [name, value] : run->config) {
      auto& [known, count] = first.try_emplace(name, value, 0).first->second;
      ++count;
      if (known.type != value.type || known.text != value.text || known.number != value.number)
        differing.insert(name);
    }
  for (const auto& [name, use] : first)
    if (use.second < runs.size()) differing.insert(name);
  std::vector<std::string> keys;
  for (const auto name : differing) keys.push_back("config." + names.text(name));
  std::ranges::sort(keys);
  return keys;
}

const char* effect_name(Effect effect) {
  switch (effect) {
    case Effect::Rises: return "rises";
    case Effect::Falls: return "falls";
    case Effect::Mixed: return "mixed";
    case Effect::None: break;
  }
  return "none";
}

Json number_list(const std::vector<double>& values) {
  auto list = Json::array();
  for (const auto value : values) list.push_back(catalog::number_value(value));
  return list;
}

Json importance_json(const ParameterImportance& entry, const std::string& field,
                     const std::vector<std::string>& labels) {
  Json at = number_list(entry.at);
  if (!labels.empty()) {
    at = Json::array();
    for (const auto value : entry.at) at.push_back(labels[static_cast<size_t>(value)]);
  }
  return {{"field", field},
          {"importance", entry.importance},
          {"above_noise", entry.above_noise},
          {"correlation", entry.correlation ? Json(*entry.correlation) : Json(nullptr)},
          {"effect", effect_name(entry.effect)},
          {"runs", entry.num_runs},
          {"at", at},
          {"mean", number_list(entry.mean)}};
}

// The parameters of a POST are the members of its body.
ApiRequest with_body_params(const ApiRequest& request) {
  if (request.method == "GET") return request;
  const auto body = parse_json(request.body);
  if (!body.is_object()) throw bad_request("the body is not a JSON object");
  auto converted = request;
  for (const auto& [name, value] : body.items()) {
    for (const auto& word : value.is_array() ? value : Json::array({value})) {
      if (!word.is_string())
        throw bad_request(fmt::format("{}: expected a string or a list of them", printable(name)));
      converted.params.emplace(name, word.get<std::string>());
    }
  }
  return converted;
}

}  // namespace

ApiResponse get_analysis(Dashboard& dashboard, const ApiRequest& sent) {
  const auto request = with_body_params(sent);
  const auto [runs, matching] = analyzed_runs(dashboard, request);
  const auto& names = dashboard.catalog.names();
  const auto metrics = metrics_of(names, runs);
  auto fields = request.all("column");
  size_t num_left_out = 0;
  if (fields.size() > kMaxAnalysisColumns)
    throw bad_request(fmt::format("more than {} columns", kMaxAnalysisColumns));
  if (fields.empty()) {
    fields = differing_keys(names, runs);
    num_left_out = fields.size() - std::min(fields.size(), kMaxParameters);
    fields.resize(fields.size() - num_left_out);
    for (size_t i = 0; i < std::min(metrics.size(), kDefaultMetrics); ++i)
      fields.push_back("metric." + metrics[i].first);
    fields.insert(fields.end(), {"duration", "created"});
  }
  Json ids = Json::array(), titles = Json::array(), states = Json::array();
  for (const auto& run : runs) {
    ids.push_back(run->id);
    titles.push_back(run->info.name);
    states.push_back(state_name(run->state));
  }
  Json columns = Json::array(), known = Json::array();
  for (const auto& field : fields)
    columns.push_back(column_json(column_of(dashboard, runs, field)));
  for (const auto& [name, count] : metrics) known.push_back({{"name", name}, {"runs", count}});
  return json_response({{"matching", matching},
                        {"ids", ids},
                        {"names", titles},
                        {"states", states},
                        {"columns", columns},
                        {"keys_left_out", num_left_out},
                        {"metrics", known}});
}

ApiResponse get_importance(Dashboard& dashboard, const ApiRequest& sent) {
  const auto request = with_body_params(sent);
  const auto target = request.param("target");
  if (!target) throw bad_request("missing parameter: target=FIELD");
  const auto fields = request.all("parameter");
  if (fields.empty()) throw bad_request("missing parameter: parameter=FIELD");
  if (fields.size() > kMaxParameters)
    throw bad_request(fmt::format("more than {} parameters", kMaxParameters));
  const auto [runs, matching] = analyzed_runs(dashboard, request);
  std::vector<StudiedParameter> parameters;
  std::vector<std::vector<std::string>> labels;
  for (const auto& field : fields) {
    const auto column = column_of(dashboard, runs, field);
    auto& parameter = parameters.emplace_back();
    auto& own = labels.emplace_back();
    if (column.type != Column::Type::Text)
      parameter.numbers = column.numbers();
    else
      std::tie(own, parameter.categories) = column.labeled();
  }
  const auto report =
      parameter_importance(parameters, column_of(dashboard, runs, *target).numbers());
  Json entries = Json::array(), interactions = Json::array();
  for (size_t i = 0; i < fields.size(); ++i)
    entries.push_back(importance_json(report.parameters[i], fields[i], labels[i]));
  for (const auto& pair : report.interactions)
    interactions.push_back(
        {{"fields", {fields[pair.first], fields[pair.second]}}, {"strength", pair.strength}});
  return json_response({{"target", *target},
                        {"matching", matching},
                        {"runs", report.num_runs},
                        {"needed", report.needed},
                        {"used", report.num_used},
                        {"explained", report.explained},
                        {"parameters", entries},
                        {"interactions", interactions}});
}

}  // namespace lockstep::dashboard
