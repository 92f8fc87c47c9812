// What goes through the network devices of this machine, from /proc/net/dev.
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

  // Rates are those since the last call, so that the first one has none. Counted are the devices
  // that are hardware; where none is (a container) all but the loopback.
  void sample(SampleTime now, SystemValues& values);

 private:
  proc::FileReader reader_;
  std::string net_dev_, devices_;
  CounterRates<std::string> received_, transmitted_;
};

}  // namespace lockstep::tracking
