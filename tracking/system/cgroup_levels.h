// Where the control group of this process is (kernel documentation: admin-guide/cgroup-v2 and
// cgroup-v1), where groups are usually mounted below /sys/fs/cgroup.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace lockstep::tracking {

// Whether groups are those of the second generation.
bool has_unified_groups(const std::filesystem::path& root_of_sys);

// Directories of the group that `controller`, such as "memory", has this process in: the group's
// own, its parent's, ...; those that are there.
std::vector<std::string> levels_of_group(const std::filesystem::path& root_of_proc,
                                         const std::filesystem::path& root_of_sys,
                                         const std::string& controller);

}  // namespace lockstep::tracking
