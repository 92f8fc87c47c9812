#include "cli/sweep/sweep_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <ostream>
#include <string>
#include <vector>

#include "catalog/run_list.h"
#include "cli/aligned_text.h"
#include "cli/sweep/sweep_view.h"
#include "core/printable.h"
#include "lockstep/error.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

struct ListedSweep {
  double created = 0;  // 0: it cannot be read
  Json summary;
};

ListedSweep read_listed(const fs::path& path) {
  try {
    const sweep::SweepDirectory sweep(path);
    auto summary = sweep_json(sweep);
    summary.erase("trials");
    return {sweep.info().created, std::move(summary)};
  } catch (const Error& error) {
    return {0, {{"name", path.filename()}, {"dir", path}, {"error", error.what()}}};
  }
}

std::string counts_text(const Json& counts) {
  std::string text;
  for (const auto& [state, count] : counts.items())
    if (count > 0) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count.dump(), state);
  return text.empty() ? "-" : text;
}

std::string best_text(const Json& summary) {
  const auto& best = summary["best"];
  if (best.size() != 1) return best.empty() ? "-" : fmt::format("{} trials", best.size());
  auto text = fmt::format("trial {}", best[0]["number"].dump());
  const auto& given = summary["sweep"]["objective"];
  const auto objectives = given.is_array() ? given : Json::array({given});
  for (size_t i = 0; i < objectives.size(); ++i)
    text += fmt::format("  {} {:.5g}", objectives[i]["metric"].get<std::string>(),
                        best[0]["values"][i].get<double>());
  return text;
}

}  // namespace

void print_sweeps(const fs::path& runs, bool json, std::ostream& out) {
  catalog::verify_runs_directory(runs);
  std::vector<ListedSweep> sweeps;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(sweep::sweeps_path(runs), ignored))
    if (fs::exists(entry.path() / "sweep.json", ignored))
      sweeps.push_back(read_listed(entry.path()));
  std::ranges::sort(sweeps, std::greater(), &ListedSweep::created);
  if (json) {
    auto list = Json::array();
    for (const auto& each : sweeps) list.push_back(each.summary);
    out << list.dump(2) << "\n";
  } else if (sweeps.empty()) {
    out << fmt::format("no sweeps in '{}' yet\n", runs.string());
  } else {
    std::vector<TextRow> rows(1, {"name", "state", "trials", "best"});
    for (const auto& [created, summary] : sweeps) {
      auto& row = rows.emplace_back(TextRow{summary["name"]});
      if (summary.contains("error"))
        row.insert(row.end(), {"unreadable", "-", printable(std::string(summary["error"]), 200)});
      else
        row.insert(row.end(),
                   {summary["state"], counts_text(summary["counts"]), best_text(summary)});
    }
    print_aligned(rows, out);
  }
}

}  // namespace lockstep::cli
