// Whether somebody still works on a run, and when somebody last did.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "catalog/index/run_summary.h"

namespace lockstep {

// Why the run must stay: a process writes to it. Empty when it is over.
std::string why_in_use(const RunSummary& run);

// When the run last wrote something, in seconds since 1970.
double last_written(const RunSummary& run);

// How each entry of a run ended, by its id, for sync_run(). Throws Environment when it goes on
// still: its agent feeds the sinks; Config when there is nothing recorded.
std::map<std::string, RunEnd> ends_to_sync(const std::filesystem::path& run_dir);

}  // namespace lockstep
