// The time of day, as records carry it. Not for measuring how long something takes.
#pragma once

#include <chrono>

namespace lockstep::tracking {

// Seconds since 1970 in UTC.
inline double unix_now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace lockstep::tracking
