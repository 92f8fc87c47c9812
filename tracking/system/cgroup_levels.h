// Finds the control group of this process below /sys/fs/cgroup (kernel documentation:
// admin-guide/cgroup-v2 and cgroup-v1).
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace lockstep::tracking {

// Whether cgroup v2 is mounted.
bool has_unified_groups(const std::filesystem::path& root_of_sys);

// Existing directories of this process's group for `controller`, e.g. "memory": the group, its
// parent, ...
std::vector<std::string> levels_of_group(const std::filesystem::path& root_of_proc,
                                         const std::filesystem::path& root_of_sys,
                                         const std::string& controller);

}  // namespace lockstep::tracking
