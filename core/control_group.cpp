#include "core/control_group.h"

#include <fstream>

namespace lockstep {
namespace {

namespace fs = std::filesystem;

// Lines are "0::/path" (v2) and "4:memory:/path" (v1). Empty for the mount itself.
std::string path_of_group(const fs::path& proc, bool unified, const std::string& controller) {
  std::ifstream file(proc / "self" / "cgroup");
  for (std::string line; std::getline(file, line);) {
    const auto first = line.find(':');
    const auto second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const auto controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const auto wanted = unified ? ",," : "," + controller + ",";
    if (unified ? controllers != wanted : controllers.find(wanted) == std::string::npos) continue;
    auto path = line.substr(second + 1);
    while (path.ends_with('/')) path.pop_back();
    return path.starts_with('/') ? path : std::string();
  }
  return {};
}

// nullopt: unlimited ("max" in v2, -1 in v1), or not known.
std::optional<double> cpu_limit_of(const std::string& group) {
  double quota = 0, period = 0;
  std::ifstream file(group + "/cpu.max");  // v2: "150000 100000"
  if (file) {
    file >> quota >> period;
  } else {
    std::ifstream(group + "/cpu.cfs_quota_us") >> quota;
    std::ifstream(group + "/cpu.cfs_period_us") >> period;
  }
  return quota > 0 && period > 0 ? std::optional(quota / period) : std::nullopt;
}

}  // namespace

bool has_unified_groups(const fs::path& cgroups) {
  std::error_code error;
  return fs::exists(cgroups / "cgroup.controllers", error);
}

std::vector<ControlGroup> own_groups(const std::string& controller, const fs::path& proc,
                                     const fs::path& cgroups) {
  const bool unified = has_unified_groups(cgroups);
  const auto mount = unified ? cgroups : cgroups / controller;
  auto group = path_of_group(proc, unified, controller);
  if (group.find("/..") != std::string::npos) group.clear();  // outside this mount
  std::vector<ControlGroup> groups;
  for (;;) {
    // In a container the path may be the host's; then only the mount itself exists.
    const auto directory = mount.string() + group;
    std::error_code error;
    if (fs::exists(directory, error)) groups.push_back({directory, group.empty() ? "/" : group});
    if (group.empty()) return groups;
    group.resize(group.rfind('/'));
  }
}

std::optional<double> cpu_limit(const fs::path& proc, const fs::path& cgroups) {
  std::optional<double> least;
  for (const auto& group : own_groups("cpu", proc, cgroups))
    if (const auto limit = cpu_limit_of(group.directory); limit && (!least || *limit < *least))
      least = limit;
  return least;
}

}  // namespace lockstep
