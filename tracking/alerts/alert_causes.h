// Tracks which causes of alerts are active, so that each is reported once and not at every step.
#pragma once

#include <map>
#include <string>

#include "lockstep/config_value.h"

namespace lockstep::tracking {

// Memory: at most 1,000 causes. While that many are active, further causes are not reported.
class AlertCauses {
 public:
  // `pause_s`: how long a cause must be absent before it counts as new. Limits alerts to one per
  // cause in this time.
  explicit AlertCauses(double pause_s) : pause_s_(pause_s) {}

  // Advances the clock. Requires seconds >= 0.
  void advance(double seconds) { now_s_ += seconds; }

  // Marks the cause as active now. Returns whether it is new.
  bool mark_active(const std::string& cause);

  // {cause: seconds since it was last active}, for a process that continues the run.
  Json state() const;
  // `passed_s`: time since state() was called. Skips malformed causes.
  void restore(const Json& state, double passed_s);

 private:
  double pause_s_;
  double now_s_ = 0;
  std::map<std::string, double> last_seen_s_;
};

}  // namespace lockstep::tracking
