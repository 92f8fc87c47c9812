// CPU usage and load average, from /proc/stat and /proc/loadavg (proc(5)).
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "tracking/system/proc_file.h"
#include "tracking/system/system_values.h"

namespace lockstep::tracking {

class CpuUsage {
 public:
  explicit CpuUsage(const std::filesystem::path& root_of_proc);

  // Percentages cover the time since the last call; the first call returns none.
  void sample(SystemValues& values);

 private:
  // user, nice, system, idle, iowait, irq, softirq, steal
  using Ticks = std::array<uint64_t, 8>;

  void sample_core(std::string_view line, SystemValues& values);
  void sample_load(SystemValues& values);

  proc::FileReader reader_;
  std::string stat_, loadavg_;
  std::map<std::string, Ticks, std::less<>> last_;  // "cpu" (all), "cpu0", ...
};

}  // namespace lockstep::tracking
