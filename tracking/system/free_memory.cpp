#include "tracking/system/free_memory.h"

#include <algorithm>

#include "tracking/system/cgroup_memory.h"
#include "tracking/system/proc_file.h"

namespace lockstep::tracking {

FreeMemory free_memory() {
  constexpr uint64_t kKilo = 1024;
  proc::FileReader reader;
  const auto text = reader.read("/proc/meminfo");
  if (!text) return {};
  FreeMemory memory{.bytes = proc::count_of(*text, "MemAvailable:").value_or(0) * kKilo,
                    .total = proc::count_of(*text, "MemTotal:").value_or(0) * kKilo};
  if (const auto group = CgroupMemory("/proc", "/sys").tightest(memory.total)) {
    const auto left = group->limit > group->used ? group->limit - group->used : 0;
    if (left < memory.bytes) memory.group_limit = group->limit;
    memory.bytes = std::min(memory.bytes, left);
  }
  return memory;
}

}  // namespace lockstep::tracking
