// Handlers of the sweeps of the directory.
#include <fmt/format.h>

#include <algorithm>

#include "core/printable.h"
#include "dashboard/api/handlers.h"
#include "lockstep/error.h"
#include "sweep/sweep_json.h"

namespace lockstep::dashboard {
namespace {

// Of a sweep whose files cannot be read, its name and the reason.
Json sweep_row(const Dashboard& dashboard, const std::string& name) {
  try {
    const sweep::SweepDirectory sweep(sweep::sweeps_path(dashboard.catalog.directory()) / name);
    return sweep::summary_json(sweep, sweep.trials());
  } catch (const Error& error) {
    return {{"name", name}, {"problem", error.what()}};
  }
}

}  // namespace

ApiResponse get_sweeps(Dashboard& dashboard) {
  std::vector<Json> rows;
  for (const auto& name : sweep::sweep_names(dashboard.catalog.directory()))
    rows.push_back(sweep_row(dashboard, name));
  const auto age = [](const Json& row) { return -row.value("created", 0.0); };
  std::ranges::stable_sort(rows, {}, age);
  return json_response({{"sweeps", rows}});
}

ApiResponse get_sweep(Dashboard& dashboard, const std::string& name) {
  const auto& runs = dashboard.catalog.directory();
  if (std::ranges::count(sweep::sweep_names(runs), name) == 0)
    throw not_found(fmt::format("no such sweep: '{}'", printable(name)));
  return json_response(sweep::sweep_json(sweep::SweepDirectory(sweep::sweeps_path(runs) / name)));
}

}  // namespace lockstep::dashboard
