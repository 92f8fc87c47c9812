#include "tracking/system/cgroup_memory.h"

#include "core/control_group.h"
#include "core/number_text.h"

namespace lockstep::tracking {

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
  const auto cgroups = root_of_sys / "fs" / "cgroup";
  names_ = has_unified_groups(cgroups) ? &kSecondGeneration : &kFirstGeneration;
  for (auto& group : own_groups("memory", root_of_proc, cgroups))
    levels_.push_back(std::move(group.directory));
}

std::optional<uint64_t> CgroupMemory::read_count(const std::string& path) {
  const auto text = reader_.read(path);
  return text ? parse_number<uint64_t>(proc::nth_word(*text, 0)) : std::nullopt;
}

std::optional<CgroupMemory::Use> CgroupMemory::tightest(uint64_t total) {
  std::optional<Use> found;
  uint64_t least = 0;
  for (const auto& level : levels_) {
    const auto limit = read_count(level + names_->limit);  // nullopt for "max"
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

}  // namespace lockstep::tracking
