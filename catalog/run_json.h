// A run as JSON, shared by the commands and the dashboard.
#pragma once

#include "catalog/index/run_summary.h"

namespace lockstep::catalog {

// {"id", "name", "group", "job_type", "state", "exit"}, the first fields of every
// run; `exit` is null while the run continues and if it was lost.
Json run_json(const RunInfo& info, const RunEnd& end);

// {"last", "min", "max", "step", "count"}
Json totals_json(const MetricTotals& metric);

}  // namespace lockstep::catalog
