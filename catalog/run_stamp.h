// Whether the files of a run are as they were, without reading them.
#pragma once

#include <cstdint>
#include <filesystem>

#include "catalog/run_logs.h"

namespace lockstep::catalog {

// Differs when a run that is over was changed after all: resumed, tagged, synced. Of places, sizes
// and times of its directory, its files and its logs.
uint64_t stamp_of(const std::filesystem::path& run_dir);

// The same where the logs of `run` are all that it has, and no link is among them. Quicker, because
// the directory of logs is not read: it has the same names if it was not changed.
uint64_t stamp_of(const std::filesystem::path& run_dir, const RunSummary& run);

// Differs when names came or went.
uint64_t stamp_of_directory(const std::filesystem::path& directory);

// A directory that has what makes it a run.
bool is_run(const std::filesystem::path& path, Links links);

// Unix seconds of its last change; 0 where it is not there.
double directory_time(const std::filesystem::path& path);

}  // namespace lockstep::catalog
