#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <ostream>

#include "cli/aligned_text.h"
#include "cli/runs/runs_view.h"
#include "core/printable.h"
#include "lockstep/error.h"
#include "tracking/runs/code_state.h"

namespace lockstep::cli {
namespace {

// {key: {run id: value}}, sorted by key; runs without the key are omitted.
Json by_key(const std::vector<std::string>& ids,
            const std::vector<std::map<std::string, Json>>& runs) {
  std::map<std::string, Json> merged;
  for (size_t i = 0; i < runs.size(); ++i)
    for (const auto& [key, value] : runs[i]) merged[key][ids[i]] = value;
  auto json = Json::object();
  for (const auto& [key, values] : merged) json[key] = values;
  return json;
}

bool differs(const Json& values, size_t num_runs) {
  return values.size() < num_runs ||
         std::ranges::any_of(values, [&](const Json& value) { return value != values.front(); });
}

std::string cell(const Json& values, const std::string& id, const char* member = nullptr) {
  const auto it = values.find(id);
  if (it == values.end()) return "-";
  const auto& value = member ? it->at(member) : *it;
  if (value.is_string()) return printable(value.get<std::string>());
  return value.is_number_float() ? fmt::format("{:.6g}", value.get<double>())
                                 : printable(catalog::to_text(value));
}

std::vector<std::pair<std::string, Json>> in_order(const Json& metrics) {
  std::vector<std::pair<std::string, Json>> sorted;
  for (const auto& [name, values] : metrics.items()) sorted.emplace_back(name, values);
  std::ranges::stable_sort(sorted, {},
                           [](const auto& metric) { return metric_order(metric.first); });
  return sorted;
}

// {"commit": {id: commit}, "uncommitted": {id: text}}: of the runs that have a record of it.
Json code_by_run(const std::vector<std::vector<catalog::RunEntry>>& runs,
                 const std::vector<std::string>& ids) {
  auto code = Json::object();
  for (size_t i = 0; i < runs.size(); ++i) {
    const auto state = tracking::read_code_state(runs[i].front().run->dir);
    if (!state) continue;
    code["commit"][ids[i]] = state->git.commit;
    code["uncommitted"][ids[i]] = tracking::describe_changes(*state);
  }
  return code;
}

// "config" and "code" have rows for each key.
void print_keys(const Json& rows_by_key, std::vector<TextRow> rows,
                const std::vector<std::string>& ids, std::ostream& out) {
  for (const auto& [key, values] : rows_by_key.items()) {
    rows.push_back({printable(key, 200)});
    for (const auto& id : ids) rows.back().push_back(cell(values, id));
  }
  print_aligned(rows, out);
}

}  // namespace

Json comparison_json(const std::vector<std::vector<catalog::RunEntry>>& runs) {
  std::vector<std::string> ids;
  std::vector<std::map<std::string, Json>> configs, metrics;
  for (const auto& entries : runs) {
    const auto page = page_json(entries);
    const auto id = page["id"].get<std::string>();
    if (std::ranges::count(ids, id) > 0)
      throw config_error(fmt::format("lockstep runs compare: run '{}' is given twice", id));
    ids.push_back(id);
    configs.push_back(catalog::leaves_of(page["config"]));
    metrics.push_back(page["metrics"].get<std::map<std::string, Json>>());
  }
  auto config = Json::object();
  const auto all_config = by_key(ids, configs);
  for (const auto& [key, values] : all_config.items())
    if (differs(values, ids.size())) config[key] = values;
  Json json = {{"runs", ids}, {"config", config}, {"metrics", by_key(ids, metrics)}};
  if (auto code = code_by_run(runs, ids); !code.empty()) json["code"] = std::move(code);
  return json;
}

void print_comparison(const Json& comparison, std::ostream& out) {
  const auto ids = comparison["runs"].get<std::vector<std::string>>();
  const auto table = [&](const char* title) {
    std::vector<TextRow> rows = {{title}};
    rows[0].insert(rows[0].end(), ids.begin(), ids.end());
    return rows;
  };
  if (comparison["config"].empty())
    out << "the configs are identical\n";
  else
    print_keys(comparison["config"], table("config"), ids, out);
  if (const auto code = comparison.find("code"); code != comparison.end()) {
    out << "\n";
    const auto is_different = [&](const Json& row) {
      return differs(row, ids.size()) ||
             row.front().get<std::string>().starts_with(tracking::kUnknownChanges);
    };
    if (std::ranges::any_of(*code, is_different))
      print_keys(*code, table("code"), ids, out);
    else
      out << "the same commit and the same changes of tracked files\n";
  }
  if (comparison["metrics"].empty()) return;
  auto metrics = table("metric");
  for (const auto& [name, values] : in_order(comparison["metrics"]))
    for (const char* member : {"last", "min", "max"}) {
      metrics.push_back({fmt::format("{} {}", printable(name, 200), member)});
      for (const auto& id : ids) metrics.back().push_back(cell(values, id, member));
    }
  out << "\n";
  print_aligned(metrics, out);
}

}  // namespace lockstep::cli
