// Usage of a directory's file system (statvfs) and I/O rates of its disk (/proc/diskstats; kernel
// documentation: admin-guide/iostats).
#pragma once

#include <filesystem>
#include <string>

#include "tracking/system/counter_rates.h"
#include "tracking/system/proc_file.h"
#include "tracking/system/system_values.h"

namespace lockstep::tracking {

class DiskUsage {
 public:
  DiskUsage(const std::filesystem::path& root_of_proc, const std::filesystem::path& root_of_sys,
            const std::filesystem::path& disk);

  // Rates cover the time since the last call; the first call returns none. They are those of the
  // device of `disk`, or of all disks if it has none (a network or layered file system).
  void sample(SampleTime now, SystemValues& values);

 private:
  void sample_space(SystemValues& values) const;

  proc::FileReader reader_;
  std::string diskstats_, blocks_, disk_;
  CounterRates<std::string> read_, written_;
};

}  // namespace lockstep::tracking
