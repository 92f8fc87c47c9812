#include "tracking/system/cgroup_memory.h"

namespace lockstep {

struct CgroupMemory::FileNames {
  const char* limit;
  const char* usage;
  const char* reclaimable;  // its name in memory.stat
  const char* events;       // has a line "oom_kill N"
};

const CgroupMemory::FileNames CgroupMemory::kSecondGeneration = {"/memory.max", "/memory.current",
                                                                 "inactive_file", "/memory.events"};
const CgroupMemory::FileNames CgroupMemory::kFirstGeneration = {
    "/memory.limit_in_bytes", "/memory.usage_in_bytes", "total_inactive_file",
    "/memory.oom_control"};

CgroupMemory::CgroupMemory(const std::filesystem::path& root_of_proc,
                           const std::filesystem::path& root_of_sys)
    : vmstat_(root_of_proc / "vmstat") {
  auto mount = root_of_sys / "fs" / "cgroup";
  const bool unified = proc::file_exists(mount / "cgroup.controllers");
  names_ = unified ? &kSecondGeneration : &kFirstGeneration;
  if (!unified) mount /= "memory";
  auto group = path_of_group(root_of_proc).value_or("");
  if (group.find("/..") != std::string::npos) group.clear();  // outside of what is mounted here
  for (;;) {
    // In a container the path may be the host's: then only the mount itself is there.
    const auto level = mount.string() + group;
    if (proc::file_exists(level)) levels_.push_back(level);
    if (group.empty()) break;
    group.resize(group.rfind('/'));
  }
}

// Lines are "0::/path" (v2) and "4:memory:/path" (v1).
std::optional<std::string> CgroupMemory::path_of_group(const std::filesystem::path& root_of_proc) {
  auto text = reader_.read(root_of_proc / "self" / "cgroup");
  std::string_view line;
  while (text && proc::next_line(*text, line)) {
    const auto first = line.find(':');
    const auto second = line.find(':', first + 1);
    if (first == std::string_view::npos || second == std::string_view::npos) continue;
    const auto controllers = "," + std::string(line.substr(first + 1, second - first - 1)) + ",";
    const bool unified = names_ == &kSecondGeneration;
    if (unified ? controllers != ",," : controllers.find(",memory,") == std::string::npos) continue;
    std::string path(line.substr(second + 1));
    while (path.ends_with('/')) path.pop_back();
    return path.starts_with('/') ? path : std::string();
  }
  return std::nullopt;
}

std::optional<uint64_t> CgroupMemory::read_count(const std::string& path) {
  const auto text = reader_.read(path);
  return text ? proc::to_count(proc::nth_word(*text, 0)) : std::nullopt;
}

std::optional<CgroupMemory::Use> CgroupMemory::tightest(uint64_t total) {
  std::optional<Use> found;
  uint64_t least = 0;
  for (const auto& level : levels_) {
    const auto limit = read_count(level + names_->limit);  // "max": no number
    if (!limit || *limit >= total) continue;
    const auto usage = read_count(level + names_->usage);
    const auto stat = reader_.read(level + "/memory.stat");
    if (!usage || !stat) continue;
    const auto cache = proc::count_of(*stat, names_->reclaimable).value_or(0);
    const auto used = *usage > cache ? *usage - cache : 0;
    const auto left = *limit > used ? *limit - used : 0;
    if (found && left >= least) continue;
    found = Use{.limit = *limit, .used = used};
    least = left;
  }
  return found;
}

std::optional<uint64_t> CgroupMemory::oom_kills() {
  if (!levels_.empty())
    if (const auto text = reader_.read(levels_.front() + names_->events))
      if (const auto kills = proc::count_of(*text, "oom_kill")) return kills;
  const auto text = reader_.read(vmstat_);
  return text ? proc::count_of(*text, "oom_kill") : std::nullopt;
}

}  // namespace lockstep
