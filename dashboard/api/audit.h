// The record of changes that were made through the dashboard: <runs>/.dashboard/audit.jsonl, one
// JSON object per line: {"time": unix seconds, "user", "action", "run", "change"}. At 16 MiB, the
// file is renamed to audit.1.jsonl, which replaces an older one.
#pragma once

#include <filesystem>
#include <string>

#include "dashboard/api/api.h"

namespace lockstep::dashboard {

// Appends a line; `change` is the body of the request, if it is not large. Throws Environment if
// the line cannot be written.
void record_change(const std::filesystem::path& runs, const ApiRequest& request,
                   const std::string& action, const std::string& run);

}  // namespace lockstep::dashboard
