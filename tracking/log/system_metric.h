// Names of metrics of the machine ("system/cpu_percent"). Their steps are numbers of samples, not steps of the run.
#pragma once

#include <string_view>

namespace lockstep::tracking {

inline constexpr std::string_view kSystemPrefix = "system/";

inline bool is_system_metric(std::string_view name) { return name.starts_with(kSystemPrefix); }

}  // namespace lockstep::tracking
