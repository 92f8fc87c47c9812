// Exports runs as one HTML file that opens without a server.
#pragma once

#include <string>

#include "dashboard/api/api.h"

namespace lockstep::dashboard {

// The front end with the data of the runs inlined. Throws Error.
std::string report_html(Dashboard& dashboard, const std::vector<catalog::RunSnapshot>& runs);

// GET /api/report.html.
ApiResponse get_report(Dashboard& dashboard, const ApiRequest& request);

}  // namespace lockstep::dashboard
