#include "tracking/system/memory_usage.h"

#include <algorithm>

namespace lockstep::tracking {
namespace {

void add_memory(uint64_t total, uint64_t used, uint64_t available, SystemValues& values) {
  values.emplace_back("system/memory.total_bytes", static_cast<double>(total));
  values.emplace_back("system/memory.used_bytes", static_cast<double>(used));
  values.emplace_back("system/memory.available_bytes", static_cast<double>(available));
  if (total > 0)
    values.emplace_back("system/memory.percent",
                        100.0 * static_cast<double>(used) / static_cast<double>(total));
}

void add_swap(uint64_t total, uint64_t used, SystemValues& values) {
  values.emplace_back("system/swap.total_bytes", static_cast<double>(total));
  values.emplace_back("system/swap.used_bytes", static_cast<double>(used));
  if (total > 0)
    values.emplace_back("system/swap.percent",
                        100.0 * static_cast<double>(used) / static_cast<double>(total));
}

}  // namespace

MemoryUsage::MemoryUsage(const std::filesystem::path& root_of_proc,
                         const std::filesystem::path& root_of_sys)
    : meminfo_(root_of_proc / "meminfo"),
      cgroup_(root_of_proc, root_of_sys),
      kills_at_start_(cgroup_.oom_kills()) {}

void MemoryUsage::sample(SystemValues& values) {
  if (const auto text = reader_.read(meminfo_)) {
    const auto bytes = [&](const char* key) -> std::optional<uint64_t> {
      const auto kib = proc::count_of(*text, key);
      return kib ? std::optional(*kib * 1024) : std::nullopt;
    };
    const auto total = bytes("MemTotal:"), available = bytes("MemAvailable:");
    if (total && available && *available <= *total) {
      if (const auto group = cgroup_.tightest(*total))
        add_memory(group->limit, group->used,
                   std::min(*available, group->limit - std::min(group->limit, group->used)),
                   values);
      else
        add_memory(*total, *total - *available, *available, values);
    }
    const auto swap = bytes("SwapTotal:"), free_swap = bytes("SwapFree:");
    if (swap && free_swap && *free_swap <= *swap) add_swap(*swap, *swap - *free_swap, values);
  }
  if (kills_at_start_) values.emplace_back("system/oom_kills", static_cast<double>(oom_kills()));
}

int64_t MemoryUsage::oom_kills() {
  const auto kills = cgroup_.oom_kills();
  if (!kills || !kills_at_start_ || *kills < *kills_at_start_) return 0;
  return static_cast<int64_t>(*kills - *kills_at_start_);
}

}  // namespace lockstep::tracking
