// A sample of the system. Names and units: docs/system_metrics.md.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::tracking {

// Metric name, such as "system/memory.percent", and value.
using SystemValues = std::vector<std::pair<std::string, double>>;

// Omits a value that is not available.
inline void add_if_known(SystemValues& values, const char* name, std::optional<double> value) {
  if (value) values.emplace_back(name, *value);
}

}  // namespace lockstep::tracking
