#include "cli/sweep/sweep_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <ostream>

#include "cli/aligned_text.h"
#include "core/printable.h"
#include "sweep/ranking.h"
#include "sweep/sweep_json.h"

namespace lockstep::cli {
namespace {

using sweep::SweepDirectory;
using sweep::Trial;

std::string plain_text(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  return value.is_number_float() ? fmt::format("{:.4g}", value.get<double>()) : value.dump();
}

std::string result_text(const Trial& trial, size_t place) {
  return place < trial.values.size() ? fmt::format("{:.5g}", trial.values[place]) : "-";
}

std::string parameters_text(const Trial& trial) {
  std::string text;
  for (const auto& [key, value] : trial.parameters.items())
    text += fmt::format("{}{} {}", text.empty() ? "" : "  ", key, plain_text(value));
  return text;
}

// Those without a result last.
std::vector<Trial> best_first(const std::vector<sweep::Objective>& objectives,
                              const std::vector<Trial>& trials) {
  std::vector<Trial> sorted;
  for (const auto place : sweep::ranked(objectives, trials)) sorted.push_back(trials[place]);
  for (const auto& trial : trials)
    if (!trial.counts()) sorted.push_back(trial);
  return sorted;
}

std::string csv_cell(const std::string& text) {
  if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const auto c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + "\"";
}

Json row_json(const SweepDirectory& directory, const Trial& trial) {
  Json row = {{"trial", trial.number}, {"state", name_of(trial.state)}, {"by", name_of(trial.by)}};
  const auto& objectives = directory.file().objective.all;
  const auto json = sweep::to_json(trial);
  for (size_t i = 0; i < objectives.size(); ++i)
    row[objectives[i].metric] = i < trial.values.size() ? json["values"][i] : Json(nullptr);
  for (const auto& parameter : directory.file().space.parameters)
    row[parameter.key] = trial.parameters.contains(parameter.key)
                             ? trial.parameters.at(parameter.key)
                             : Json(nullptr);
  row["runs"] = trial.runs;
  row["reason"] = trial.reason;
  return row;
}

}  // namespace

std::string trial_text(const SweepDirectory& directory, const Trial& trial) {
  auto text = fmt::format("trial {}  {}", trial.number, name_of(trial.state));
  const auto& objectives = directory.file().objective.all;
  for (size_t i = 0; i < trial.values.size() && i < objectives.size(); ++i)
    text += fmt::format("  {} {}", objectives[i].metric, result_text(trial, i));
  text += "  " + parameters_text(trial);
  return trial.reason.empty() ? text : text + "  (" + trial.reason + ")";
}

void print_outcome(const SweepDirectory& directory, std::ostream& out) {
  const auto trials = directory.trials();
  std::string counts;
  for (const auto& [state, count] : sweep::counts_of(trials))
    counts += fmt::format("{}{} {}", counts.empty() ? "" : ", ", count, state);
  out << fmt::format("sweep {}: {} trial{}{}{}\n", directory.file().name, trials.size(),
                     trials.size() == 1 ? "" : "s", counts.empty() ? "" : ": ", counts);
  const auto best = sweep::best_of(directory.file().objective.all, trials);
  for (const auto& trial : best) out << "best: " << trial_text(directory, trial) << "\n";
  const bool is_default = directory.runs() == "runs";
  out << fmt::format("inspect with: lockstep sweep show {}{}\n", directory.file().name,
                     is_default ? "" : " --dir " + directory.runs().string());
}

void print_sweep(const SweepDirectory& directory, std::ostream& out) {
  const auto& file = directory.file();
  const auto trials = best_first(file.objective.all, directory.trials());
  std::vector<TextRow> rows(1, {"trial", "state"});
  for (const auto& objective : file.objective.all) rows.front().push_back(objective.metric);
  for (const auto& parameter : file.space.parameters) rows.front().push_back(parameter.key);
  rows.front().push_back("");
  const auto state = sweep::state_of(directory, trials);
  for (const auto& trial : trials) {
    auto& row = rows.emplace_back();
    row = {std::to_string(trial.number), name_of(trial.state)};
    for (size_t i = 0; i < file.objective.all.size(); ++i) row.push_back(result_text(trial, i));
    for (const auto& parameter : file.space.parameters)
      row.push_back(trial.parameters.contains(parameter.key)
                        ? plain_text(trial.parameters.at(parameter.key))
                        : "-");
    row.push_back(printable(trial.reason, 100));
  }
  out << fmt::format("{}: {}\n", file.name, state);
  print_aligned(rows, out);
  print_outcome(directory, out);
}

void export_trials(const SweepDirectory& directory, bool csv, std::ostream& out) {
  bool is_first = true;
  for (const auto& trial : directory.trials()) {
    const auto row = row_json(directory, trial);
    if (!csv) {
      out << row.dump() << "\n";
      continue;
    }
    std::vector<std::string> names, cells;
    for (const auto& [name, value] : row.items()) {
      names.push_back(csv_cell(name));
      cells.push_back(csv_cell(value.is_null()     ? ""
                               : value.is_string() ? value.get<std::string>()
                                                   : value.dump()));
    }
    const auto line = [&](const std::vector<std::string>& all) {
      for (size_t i = 0; i < all.size(); ++i) out << (i ? "," : "") << all[i];
      out << "\n";
    };
    if (std::exchange(is_first, false)) line(names);
    line(cells);
  }
}

}  // namespace lockstep::cli
