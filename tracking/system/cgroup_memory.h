// The memory that the control group of this process may use, and the kills of the out-of-memory
// killer in it. Both generations of cgroups, where they are usually mounted below /sys/fs/cgroup
// (kernel documentation: admin-guide/cgroup-v2 and cgroup-v1/memory).
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
    uint64_t used = 0;   // bytes, without the file cache that would be given back first
  };

  CgroupMemory(const std::filesystem::path& root_of_proc, const std::filesystem::path& root_of_sys);

  // Of the group or its parents, the one that has the least left among those with a limit below
  // `total` bytes; nullopt when none has.
  std::optional<Use> tightest(uint64_t total);

  // Processes killed so far in the group (v2: or below it); where groups do not count that, on the
  // whole machine.
  std::optional<uint64_t> oom_kills();

 private:
  struct FileNames;  // what the files of a generation are called
  static const FileNames kSecondGeneration, kFirstGeneration;

  std::optional<uint64_t> read_count(const std::string& path);

  proc::FileReader reader_;
  const FileNames* names_;
  std::vector<std::string> levels_;
  std::string vmstat_;
};

}  // namespace lockstep::tracking
