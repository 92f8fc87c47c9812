// Wall-clock time for records. Not for measuring durations.
#pragma once

#include <chrono>

namespace lockstep::tracking {

// Seconds since 1970 in UTC.
inline double unix_now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace lockstep::tracking
