#include "cli/sweep/sweep_list.h"

#include <fmt/format.h>

#include <cmath>
#include <ostream>
#include <string>
#include <vector>

#include "catalog/run_list.h"
#include "cli/aligned_text.h"
#include "core/printable.h"
#include "sweep/sweep_json.h"

namespace lockstep::cli {
namespace {

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
  for (size_t i = 0; i < objectives.size(); ++i) {
    const auto& value = best[0]["values"][i];  // null: not a number
    text += fmt::format("  {} {:.5g}", objectives[i]["metric"].get<std::string>(),
                        value.is_number() ? value.get<double>() : std::nan(""));
  }
  return text;
}

}  // namespace

void print_sweeps(const std::filesystem::path& runs, bool json, std::ostream& out) {
  catalog::verify_runs_directory(runs);
  const auto sweeps = sweep::summaries_json(runs);
  if (json) {
    out << sweeps.dump(2) << "\n";
  } else if (sweeps.empty()) {
    out << fmt::format("no sweeps in '{}' yet\n", runs.string());
  } else {
    std::vector<TextRow> rows(1, {"name", "state", "trials", "best"});
    for (const auto& summary : sweeps) {
      auto& row = rows.emplace_back(TextRow{summary["name"]});
      if (summary.contains("problem"))
        row.insert(row.end(), {"unreadable", "-", printable(std::string(summary["problem"]), 200)});
      else
        row.insert(row.end(),
                   {summary["state"], counts_text(summary["counts"]), best_text(summary)});
    }
    print_aligned(rows, out);
  }
}

}  // namespace lockstep::cli
