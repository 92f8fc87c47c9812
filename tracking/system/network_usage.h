// Traffic of this machine's network devices, from /proc/net/dev.
#pragma once

#include <filesystem>
#include <string>

#include "tracking/system/counter_rates.h"
#include "tracking/system/proc_file.h"
#include "tracking/system/system_values.h"

namespace lockstep::tracking {

class NetworkUsage {
 public:
  NetworkUsage(const std::filesystem::path& root_of_proc, const std::filesystem::path& root_of_sys);

  // Rates cover the time since the last call; the first call returns none. Counts hardware devices;
  // if there are none (a container), all but loopback.
  void sample(SampleTime now, SystemValues& values);

 private:
  proc::FileReader reader_;
  std::string net_dev_, devices_;
  CounterRates<std::string> received_, transmitted_;
};

}  // namespace lockstep::tracking
