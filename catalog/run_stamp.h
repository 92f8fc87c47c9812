// Detects changes to the files of a run without reading them.
#pragma once

#include <cstdint>
#include <filesystem>

#include "catalog/run_logs.h"

namespace lockstep::catalog {

// Changes if a finished run is modified: resumed, tagged, synced. Computed from the names, sizes
// and times of its directory, files and logs.
uint64_t stamp_of(const std::filesystem::path& run_dir);

// The same if `run` lists all logs and none of them is a link. Faster: does not read the directory
// of logs, whose names are unchanged if the directory is.
uint64_t stamp_of(const std::filesystem::path& run_dir, const RunSummary& run);

// Changes if entries were added or removed.
uint64_t stamp_of_directory(const std::filesystem::path& directory);

// Whether the directory is a run.
bool is_run(const std::filesystem::path& path, Links links);

// Unix seconds of its last change; 0 if it does not exist.
double directory_time(const std::filesystem::path& path);

}  // namespace lockstep::catalog
