// The memory limit of this process's control group, and the processes that the out-of-memory killer
// killed in it. Supports cgroup v1 and v2 below /sys/fs/cgroup (kernel documentation:
// admin-guide/cgroup-v2 and cgroup-v1/memory).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "tracking/system/proc_file.h"

namespace lockstep::tracking {

class CgroupMemory {
 public:
  struct Use {
    uint64_t limit = 0;  // bytes
    uint64_t used = 0;   // bytes, without reclaimable file cache
  };

  CgroupMemory(const std::filesystem::path& root_of_proc, const std::filesystem::path& root_of_sys);

  // The group or ancestor with the least free memory among those with a limit below `total` bytes;
  // nullopt if there is none.
  std::optional<Use> tightest(uint64_t total);

  // Processes killed so far in the group (v2: and below); on the whole machine if groups do not
  // count them.
  std::optional<uint64_t> oom_kills();

 private:
  struct FileNames;  // file names of a cgroup version
  static const FileNames kSecondGeneration, kFirstGeneration;

  std::optional<uint64_t> read_count(const std::string& path);

  proc::FileReader reader_;
  const FileNames* names_;
  std::vector<std::string> levels_;
  std::string vmstat_;
};

}  // namespace lockstep::tracking
