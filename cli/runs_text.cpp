#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <ostream>

#include "cli/aligned_text.h"
#include "cli/runs_view.h"
#include "core/config_fields.h"
#include "core/printable.h"
#include "tracking/run_tags.h"

namespace lockstep {
namespace {

constexpr std::array<const char*, 3> kKeyMetrics = {"eval/accuracy", "eval/loss", "train/loss"};

std::string value_text(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  return value.is_number() ? fmt::format("{:.5g}", value.get<double>()) : "-";
}

// An entry of a job with one entry speaks for all ranks.
std::string ranks_text(const RunInfo& info) {
  return info.job_type ? fmt::format("{} of {}", info.rank, info.world_size)
                       : std::to_string(info.world_size);
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
    for (const auto& note : record.notes)
      out << printable(fmt::format("note: {}: {}", record.info.id, note), std::string::npos)
          << "\n";
}

void print_metrics(const RunRecord& record, std::ostream& out) {
  if (record.metrics.empty()) return;
  std::vector<TextRow> rows = {{"metric", "last", "min", "max", "step", "values"}};
  for (const auto& [name, metric] : record.metrics)
    rows.push_back({name, value_text(number_json(metric.last)), value_text(number_json(metric.min)),
                    value_text(number_json(metric.max)), std::to_string(metric.step),
                    std::to_string(metric.count)});
  out << "\n";
  print_aligned(rows, out);
}

void print_ranks(const Json& ranks, std::ostream& out) {
  std::vector<TextRow> rows = {{"rank", "id", "host", "pid", "state", "train/loss"}};
  for (const auto& rank : ranks)
    rows.push_back({rank["rank"].dump(), rank["id"], rank["host"], rank["pid"].dump(),
                    rank["state"], value_text(rank["summary"].value("train/loss", Json()))});
  out << "\n";
  print_aligned(rows, out);
}

std::string step_text(const RunRecord& record) {
  const auto planned = record.info.planned.steps;
  return planned > 0 ? fmt::format("{} of {}", record.step, planned) : std::to_string(record.step);
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
  std::vector<TextRow> rows = {{"ID", "STATE", "RANKS", "AGE"}};
  rows[0].insert(rows[0].end(), metrics.begin(), metrics.end());
  std::vector<std::string> tags;
  for (const auto& record : records)
    tags.push_back(fmt::format("{}", fmt::join(read_run_tags(record.dir).tags, ",")));
  const bool tagged = std::ranges::any_of(tags, [](const auto& text) { return !text.empty(); });
  if (tagged) rows[0].emplace_back("TAGS");
  for (size_t i = 0; i < records.size(); ++i) {
    const auto& info = records[i].info;
    rows.push_back({info.id, state_name(records[i].end.state), ranks_text(info),
                    info.created > 0 ? age_text(now - info.created) : "-"});
    for (const auto& metric : metrics)
      rows.back().push_back(value_text(summaries[i].value(metric, Json())));
    if (tagged) rows.back().push_back(tags[i]);
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
  std::vector<TextRow> rows = {
      {"run", text(page["id"])}, {"name", text(page["name"])}, {"state", state_text(page)}};
  rows.push_back({"step", step_text(first)});
  if (!page["group"].is_null()) rows.push_back({"group", text(page["group"])});
  const auto tags = read_run_tags(first.dir);
  if (!tags.tags.empty() || !tags.note.empty()) rows.push_back({"tags", tags_text(tags)});
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
  if (!tags.problem.empty()) out << "note: " << printable(tags.problem, std::string::npos) << "\n";
}

}  // namespace lockstep
