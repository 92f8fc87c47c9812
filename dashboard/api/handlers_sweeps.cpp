// Handlers of the sweeps of the directory.
#include <fmt/format.h>

#include <algorithm>

#include "core/printable.h"
#include "dashboard/api/handlers.h"
#include "sweep/sweep_json.h"

namespace lockstep::dashboard {

ApiResponse get_sweeps(Dashboard& dashboard) {
  return json_response({{"sweeps", sweep::summaries_json(dashboard.catalog.directory())}});
}

ApiResponse get_sweep(Dashboard& dashboard, const std::string& name) {
  const auto& runs = dashboard.catalog.directory();
  if (std::ranges::count(sweep::sweep_names(runs), name) == 0)
    throw not_found(fmt::format("no such sweep: '{}'", printable(name)));
  return json_response(sweep::sweep_json(sweep::SweepDirectory(sweep::sweeps_path(runs) / name)));
}

}  // namespace lockstep::dashboard
