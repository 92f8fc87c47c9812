// Whether the files of a run are as they were, without reading them.
#pragma once

#include <cstdint>
#include <filesystem>

namespace lockstep {

// Differs when a run that is over was changed after all: resumed, tagged, synced. Of places, sizes
// and times.
uint64_t stamp_of(const std::filesystem::path& run_dir);

// Differs when names came or went.
uint64_t stamp_of_directory(const std::filesystem::path& directory);

// A directory that has what makes it a run. A link to one is none: it could lead anywhere.
bool is_run(const std::filesystem::path& path);

// Unix seconds of its last change; 0 where it is not there.
double directory_time(const std::filesystem::path& path);

}  // namespace lockstep
