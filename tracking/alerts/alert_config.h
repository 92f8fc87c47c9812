// The `tracking.alerts:` section of a run file.
#pragma once

#include <chrono>
#include <optional>
#include <vector>

#include "core/config/period.h"
#include "lockstep/config_fields.h"
#include "tracking/alerts/alert_condition.h"

namespace lockstep::tracking {

struct AlertConfig {
  bool nan = true;
  double loss_spike = 10;
  std::optional<Duration> stall = Duration{std::chrono::minutes(10)};
  double slow_rank = 1.5;
  bool lost_rank = true;
  double disk_percent = 95;
  std::vector<AlertCondition> conditions;
  Duration repeat_after{std::chrono::minutes(10)};
};

template <class V>
void fields(V& v, AlertConfig& c) {
  v("nan", c.nan, "a metric under train/ or eval/ is NaN or infinite");
  v("loss_spike", c.loss_spike,
    "train/loss is above this many times the median of its last 100 values; 0 = off, else above 1",
    at_least(0));
  v("stall", c.stall, "a live rank has logged nothing for this long; null = off");
  v("slow_rank", c.slow_rank,
    "a rank's seconds per step are above this many times the median of the other ranks; 0 = off, "
    "else above 1",
    at_least(0));
  v("lost_rank", c.lost_rank, "a rank's process is gone without reporting an outcome");
  v("disk_percent", c.disk_percent,
    "the disk of the run directory (system/disk.percent) is fuller than this; 100 = off",
    at_least(0), at_most(100));
  v("conditions", c.conditions,
    "user-defined conditions, e.g. "
    "'eval/accuracy < 0.5 after 1000 steps' or 'train/loss > 5 for 3 values'");
  v("repeat_after", c.repeat_after,
    "time for which a cause must be absent before it is reported again");
}

}  // namespace lockstep::tracking
