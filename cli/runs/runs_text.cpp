#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <ostream>

#include "cli/aligned_text.h"
#include "cli/runs/runs_view.h"
#include "core/config/config_text.h"
#include "core/printable.h"
#include "lockstep/config_fields.h"
#include "tracking/runs/code_state.h"
#include "tracking/runs/rank_losses.h"
#include "tracking/runs/run_tags.h"

namespace lockstep::cli {
namespace {

constexpr std::array<const char*, 3> kKeyMetrics = {"eval/accuracy", "eval/loss", "train/loss"};

std::string value_text(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  return value.is_number() ? fmt::format("{:.5g}", value.get<double>()) : "-";
}

std::string value_text(double value) {
  return std::isnan(value) ? "nan" : fmt::format("{:.5g}", value);
}

// The value of summary_json() for `name`, as text.
std::string summary_text(const catalog::RunEntry& entry, uint32_t name) {
  if (entry.rank)
    for (const auto& [known, value] : entry.rank->summary)
      if (known == name) return value_text(value);
  for (const auto* source : {entry.rank, entry.node}) {
    if (!source) continue;
    const auto it = std::ranges::find(source->metrics, name, &catalog::MetricTotals::name);
    if (it != source->metrics.end() && it->count > 0) return value_text(it->last);
  }
  return "-";
}

// The only entry of a job represents all ranks.
std::string ranks_text(const RunInfo& info) {
  return info.job_type ? fmt::format("{} of {}", info.rank, info.world_size)
                       : std::to_string(info.world_size);
}

void print_metrics(const catalog::RunEntry& entry, std::ostream& out) {
  const auto by_name = entry.metrics();
  if (by_name.empty()) return;
  std::vector<std::pair<std::string_view, const catalog::MetricTotals*>> metrics(by_name.begin(),
                                                                                 by_name.end());
  std::ranges::stable_sort(metrics, {},
                           [](const auto& metric) { return metric_order(metric.first); });
  std::vector<TextRow> rows = {{"metric", "last", "min", "max", "step", "values"}};
  for (const auto& [name, metric] : metrics)
    rows.push_back({std::string(name), value_text(metric->last), value_text(metric->min),
                    value_text(metric->max), std::to_string(metric->step),
                    std::to_string(metric->count)});
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

std::string step_text(const catalog::RunEntry& entry) {
  const auto planned = entry.info().planned.steps;
  return planned > 0 ? fmt::format("{} of {}", entry.step(), planned)
                     : std::to_string(entry.step());
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

std::string commit_text(const tracking::GitState& git) {
  return git.branch.empty() ? git.commit : fmt::format("{} ({})", git.commit, git.branch);
}

}  // namespace

void print_notes(const std::vector<catalog::RunEntry>& entries, std::ostream& out) {
  for (const auto& entry : entries)
    for (const auto& note : entry.notes())
      out << printable(fmt::format("note: {}: {}", entry.info().id, note), std::string::npos)
          << "\n";
}

int metric_order(std::string_view name) {
  if (name.starts_with("eval/")) return 0;
  if (name.starts_with("train/")) return 1;
  if (name.starts_with("time/")) return 3;
  return name.starts_with("system/") ? 4 : 2;
}

void print_table(const std::vector<catalog::RunEntry>& entries, double now, std::ostream& out) {
  std::vector<TextRow> rows = {{"ID", "NAME", "STATE", "RANKS", "AGE"}};
  for (const auto& entry : entries) {
    const auto& info = entry.info();
    rows.push_back({info.id, info.name, state_name(entry.end().state), ranks_text(info),
                    info.created > 0 ? age_text(now - info.created) : "-"});
  }
  // Empty columns are omitted.
  const auto add_column = [&](const char* title, const std::string& nothing, const auto& text) {
    TextRow column = {title};
    for (const auto& entry : entries) column.push_back(text(entry));
    if (std::all_of(column.begin() + 1, column.end(), [&](const auto& c) { return c == nothing; }))
      return;
    for (size_t i = 0; i < rows.size(); ++i) rows[i].push_back(std::move(column[i]));
  };
  for (const char* metric : kKeyMetrics)
    add_column(metric, "-",
               [name = entries.front().names->find(metric)](const catalog::RunEntry& entry) {
                 return summary_text(entry, name);
               });
  add_column("TAGS", "", [](const catalog::RunEntry& entry) {
    return fmt::format("{}", fmt::join(entry.run->tags.tags, ","));
  });
  print_aligned(std::move(rows), out);
  print_notes(entries, out);
}

void print_page(const std::vector<catalog::RunEntry>& entries, double now, std::ostream& out) {
  const auto& first = entries.front();
  const auto page = page_json(entries);
  const auto text = [](const Json& value) {
    return value.is_string() ? value.get<std::string>() : "-";
  };
  std::vector<TextRow> rows = {
      {"run", text(page["id"])}, {"name", text(page["name"])}, {"state", state_text(page)}};
  rows.push_back({"step", step_text(first)});
  if (!page["group"].is_null()) rows.push_back({"group", text(page["group"])});
  const auto& tags = first.run->tags;
  if (!tags.tags.empty() || !tags.note.empty()) rows.push_back({"tags", tags_text(tags)});
  rows.push_back({"created", fmt::format("{} ({} ago)", text(page["created"]),
                                         age_text(now - first.info().created))});
  rows.push_back({"ranks", std::to_string(first.info().world_size)});
  for (const auto& loss : tracking::read_rank_losses(first.run->dir)) {
    const bool all_left = std::ranges::all_of(loss.ranks, &LostRank::has_left);
    rows.push_back({loss.ranks.empty() ? "joined"
                    : all_left         ? "left"
                                       : "lost ranks",
                    printable(describe(loss), std::string::npos)});
  }
  if (const auto code = tracking::read_code_state(first.run->dir)) {
    rows.push_back({"commit", printable(commit_text(code->git))});
    rows.push_back({"uncommitted", printable(tracking::describe_changes(*code))});
  }
  rows.push_back({"directory", first.run->dir.string()});
  rows.push_back({"logs", text(page["logs"])});
  for (const auto& checkpoint : page["checkpoints"])
    rows.push_back({"checkpoint", text(checkpoint)});
  if (first.rank)
    for (const auto& [name, value] : first.rank->summary)
      rows.push_back({first.names->text(name), value_text(value)});
  print_aligned(rows, out);
  print_metrics(first, out);
  if (entries.size() > 1) print_ranks(page["ranks"], out);
  if (const auto config = first.config(); config.is_object())
    out << "\nconfig\n" << to_yaml(config);
  print_notes(entries, out);
  if (!tags.problem.empty()) out << "note: " << printable(tags.problem, std::string::npos) << "\n";
}

}  // namespace lockstep::cli
