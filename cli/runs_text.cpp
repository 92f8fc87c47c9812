#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <ostream>

#include "cli/runs_view.h"
#include "core/config_fields.h"

namespace lockstep {
namespace {

constexpr std::array<const char*, 3> kKeyMetrics = {"eval/accuracy", "eval/loss", "train/loss"};

using Row = std::vector<std::string>;

std::string age_text(double seconds) {
  if (!(seconds >= 0 && seconds < 1e10)) return "-";
  const auto whole = static_cast<int64_t>(seconds);
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} min", whole / 60);
  if (whole < 48 * 3600) return fmt::format("{} h", whole / 3600);
  return fmt::format("{} days", whole / 86400);
}

std::string value_text(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  return value.is_number() ? fmt::format("{:.5g}", value.get<double>()) : "-";
}

// An entry of a job with one entry speaks for all ranks.
std::string ranks_text(const RunInfo& info) {
  return info.job_type ? fmt::format("{} of {}", info.rank, info.world_size)
                       : std::to_string(info.world_size);
}

// Columns are as wide as their widest cell; the last one ends the line.
void print_aligned(const std::vector<Row>& rows, std::ostream& out) {
  std::vector<size_t> widths(rows.front().size());
  for (const auto& row : rows)
    for (size_t column = 0; column < row.size(); ++column)
      widths[column] = std::max(widths[column], row[column].size());
  for (const auto& row : rows) {
    std::string line;
    for (size_t column = 0; column < row.size(); ++column)
      line += fmt::format("{:<{}}  ", row[column], widths[column]);
    line.erase(line.find_last_not_of(' ') + 1);
    out << line << "\n";
  }
}

std::vector<std::string> metric_columns(const std::vector<Json>& summaries) {
  std::vector<std::string> names;
  for (const char* name : kKeyMetrics)
    if (std::ranges::any_of(summaries, [&](const Json& summary) { return summary.contains(name); }))
      names.emplace_back(name);
  return names;
}

void print_notes(const std::vector<RunRecord>& records, std::ostream& out) {
  for (const auto& record : records)
    for (const auto& note : record.notes) out << "note: " << record.info.id << ": " << note << "\n";
}

void print_metrics(const RunRecord& record, std::ostream& out) {
  if (record.metrics.empty()) return;
  std::vector<Row> rows = {{"metric", "last", "min", "max", "step", "values"}};
  for (const auto& [name, metric] : record.metrics)
    rows.push_back({name, value_text(number_json(metric.last)), value_text(number_json(metric.min)),
                    value_text(number_json(metric.max)), std::to_string(metric.step),
                    std::to_string(metric.count)});
  out << "\n";
  print_aligned(rows, out);
}

void print_ranks(const Json& ranks, std::ostream& out) {
  std::vector<Row> rows = {{"rank", "id", "host", "pid", "state", "train/loss"}};
  for (const auto& rank : ranks)
    rows.push_back({rank["rank"].dump(), rank["id"], rank["host"], rank["pid"].dump(),
                    rank["state"], value_text(rank["summary"].value("train/loss", Json()))});
  out << "\n";
  print_aligned(rows, out);
}

std::string state_text(const Json& page) {
  auto text = page["state"].get<std::string>();
  if (!page["exit"].is_null()) text += fmt::format(", exit {}", page["exit"].get<int>());
  if (page.contains("failed_rank"))
    text += fmt::format(", rank {}", page["failed_rank"].get<int>());
  if (page.contains("signal")) text += fmt::format(", signal {}", page["signal"].get<int>());
  if (!page["reason"].get<std::string>().empty()) text += ": " + page["reason"].get<std::string>();
  return text;
}

}  // namespace

void print_table(const std::vector<RunRecord>& records, double now, std::ostream& out) {
  std::vector<Json> summaries;
  for (const auto& record : records) summaries.push_back(summary_json(record));
  const auto metrics = metric_columns(summaries);
  std::vector<Row> rows = {{"ID", "STATE", "RANKS", "AGE"}};
  rows[0].insert(rows[0].end(), metrics.begin(), metrics.end());
  for (size_t i = 0; i < records.size(); ++i) {
    const auto& info = records[i].info;
    rows.push_back({info.id, state_name(records[i].end.state), ranks_text(info),
                    info.created > 0 ? age_text(now - info.created) : "-"});
    for (const auto& metric : metrics)
      rows.back().push_back(value_text(summaries[i].value(metric, Json())));
  }
  print_aligned(rows, out);
  print_notes(records, out);
}

void print_page(const std::vector<RunRecord>& records, double now, std::ostream& out) {
  const auto& first = records.front();
  const auto page = page_json(records);
  const auto text = [](const Json& value) {
    return value.is_string() ? value.get<std::string>() : "-";
  };
  std::vector<Row> rows = {
      {"run", text(page["id"])}, {"name", text(page["name"])}, {"state", state_text(page)}};
  if (!page["group"].is_null()) rows.push_back({"group", text(page["group"])});
  rows.push_back({"created", fmt::format("{} ({} ago)", text(page["created"]),
                                         age_text(now - first.info.created))});
  rows.push_back({"ranks", std::to_string(first.info.world_size)});
  rows.push_back({"directory", first.dir.string()});
  rows.push_back({"logs", text(page["logs"])});
  for (const auto& checkpoint : page["checkpoints"])
    rows.push_back({"checkpoint", text(checkpoint)});
  for (const auto& [name, value] : first.summary.items()) rows.push_back({name, value_text(value)});
  print_aligned(rows, out);
  print_metrics(first, out);
  if (records.size() > 1) print_ranks(page["ranks"], out);
  if (first.config.is_object()) out << "\nconfig\n" << to_yaml(first.config);
  print_notes(records, out);
}

}  // namespace lockstep
