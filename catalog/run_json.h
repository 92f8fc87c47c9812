// A run as JSON: what the commands and the dashboard say in the same words.
#pragma once

#include "catalog/index/run_summary.h"

namespace lockstep::catalog {

// {"id", "name", "group", "job_type", "state", "exit"}, which is what each begins with; `exit` is
// null where the run goes on or was lost.
Json run_json(const RunInfo& info, const RunEnd& end);

// {"last", "min", "max", "step", "count"}
Json totals_json(const MetricTotals& metric);

}  // namespace lockstep::catalog
