// The memory available to processes here: the machine's, or the limit of a control group
// (containers, batch systems). From /proc/meminfo and cgroup_memory.h.
#pragma once

#include <filesystem>
#include <string>

#include "tracking/system/cgroup_memory.h"
#include "tracking/system/proc_file.h"
#include "tracking/system/system_values.h"

namespace lockstep::tracking {

class MemoryUsage {
 public:
  MemoryUsage(const std::filesystem::path& root_of_proc, const std::filesystem::path& root_of_sys);

  // system/memory.*, system/swap.* and system/oom_kills.
  void sample(SystemValues& values);

  // Processes that the out-of-memory killer killed since this object was created.
  int64_t oom_kills();

 private:
  proc::FileReader reader_;
  std::string meminfo_;
  CgroupMemory cgroup_;
  std::optional<uint64_t> kills_at_start_;
};

}  // namespace lockstep::tracking
