// The control groups of this process, in /sys/fs/cgroup (kernel documentation: admin-guide/cgroup-v2
// and cgroup-v1). Other paths than the defaults are for tests.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

struct ControlGroup {
  std::string directory;
  std::string name;  // as in /proc/self/cgroup, e.g. "/job/step"
};

// Whether cgroup v2 is mounted there.
bool has_unified_groups(const std::filesystem::path& cgroups);

// This process's group for `controller`, e.g. "memory", its parent, ..., as far as they are mounted.
std::vector<ControlGroup> own_groups(const std::string& controller,
                                     const std::filesystem::path& proc = "/proc",
                                     const std::filesystem::path& cgroups = "/sys/fs/cgroup");

// The limit of CPU time, in cores; nullopt if there is none.
std::optional<double> cpu_limit(const std::filesystem::path& proc = "/proc",
                                const std::filesystem::path& cgroups = "/sys/fs/cgroup");

}  // namespace lockstep
