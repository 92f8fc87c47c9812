// Which causes of alerts are at work, so that each is told once and not at every step.
#pragma once

#include <map>
#include <string>

#include "lockstep/config_value.h"

namespace lockstep::tracking {

// Memory: at most 1,000 causes; while as many are at work, further ones are not told.
class AlertCauses {
 public:
  // `pause_s`: how long a cause must be gone before it counts as new, so that there is at most one
  // alert per cause in this time.
  explicit AlertCauses(double pause_s) : pause_s_(pause_s) {}

  // Time goes on. Requires seconds >= 0.
  void advance(double seconds) { now_s_ += seconds; }

  // The cause is at work now. True when that is new.
  bool is_news(const std::string& cause);

  // {cause: seconds since it was last at work}, for a process that goes on with the same run.
  Json state() const;
  // `passed_s`: time since state() was called. Causes of another form are passed over.
  void restore(const Json& state, double passed_s);

 private:
  double pause_s_;
  double now_s_ = 0;
  std::map<std::string, double> last_seen_s_;
};

}  // namespace lockstep::tracking
