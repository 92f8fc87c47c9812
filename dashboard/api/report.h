// A run, or several, as one HTML file that opens without a server.
#pragma once

#include <string>

#include "dashboard/api/api.h"

namespace lockstep::dashboard {

// The page with the runs' data inlined. Throws ApiError and Error.
std::string report_html(Dashboard& dashboard, const std::vector<catalog::RunSnapshot>& runs);

// GET /api/report.html.
ApiResponse report_page(Dashboard& dashboard, const ApiRequest& request);

}  // namespace lockstep::dashboard
