// How full the file system of a directory is (statvfs), and how much its disk reads and writes
// (/proc/diskstats; kernel documentation: admin-guide/iostats).
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

  // Rates are those since the last call, so that the first one has none. They are those of the
  // device of `disk`; where it has none (a network or layered file system) of all disks.
  void sample(SampleTime now, SystemValues& values);

 private:
  void sample_space(SystemValues& values) const;

  proc::FileReader reader_;
  std::string diskstats_, blocks_, disk_;
  CounterRates<std::string> read_, written_;
};

}  // namespace lockstep::tracking
