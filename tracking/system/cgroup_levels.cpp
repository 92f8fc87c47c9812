#include "tracking/system/cgroup_levels.h"

#include "tracking/system/proc_file.h"

namespace lockstep::tracking {
namespace {

// Lines are "0::/path" (v2) and "4:memory:/path" (v1). Empty for the mount itself.
std::string path_of_group(const std::filesystem::path& root_of_proc, bool unified,
                          const std::string& controller) {
  proc::FileReader reader;
  auto text = reader.read(root_of_proc / "self" / "cgroup");
  std::string_view line;
  while (text && proc::next_line(*text, line)) {
    const auto first = line.find(':');
    const auto second = line.find(':', first + 1);
    if (first == std::string_view::npos || second == std::string_view::npos) continue;
    const auto controllers = "," + std::string(line.substr(first + 1, second - first - 1)) + ",";
    const auto wanted = unified ? ",," : "," + controller + ",";
    if (unified ? controllers != wanted : controllers.find(wanted) == std::string::npos) continue;
    std::string path(line.substr(second + 1));
    while (path.ends_with('/')) path.pop_back();
    return path.starts_with('/') ? path : std::string();
  }
  return {};
}

}  // namespace

bool has_unified_groups(const std::filesystem::path& root_of_sys) {
  return proc::file_exists(root_of_sys / "fs" / "cgroup" / "cgroup.controllers");
}

std::vector<std::string> levels_of_group(const std::filesystem::path& root_of_proc,
                                         const std::filesystem::path& root_of_sys,
                                         const std::string& controller) {
  const bool unified = has_unified_groups(root_of_sys);
  auto mount = root_of_sys / "fs" / "cgroup";
  if (!unified) mount /= controller;
  auto group = path_of_group(root_of_proc, unified, controller);
  if (group.find("/..") != std::string::npos) group.clear();  // outside this mount
  std::vector<std::string> levels;
  for (;;) {
    // In a container the path may be the host's; then only the mount itself exists.
    const auto level = mount.string() + group;
    if (proc::file_exists(level)) levels.push_back(level);
    if (group.empty()) return levels;
    group.resize(group.rfind('/'));
  }
}

}  // namespace lockstep::tracking
