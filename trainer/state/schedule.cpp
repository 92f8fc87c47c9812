#include "lockstep/schedule.h"

#include <fmt/format.h>

#include "lockstep/error.h"

namespace lockstep {

double warmup_factor(int64_t step, int64_t warmup_steps) {
  if (step >= warmup_steps) return 1;
  return static_cast<double>(step + 1) / static_cast<double>(warmup_steps);
}

void verify_warmup(int64_t warmup_steps, const ScheduleSpan& span) {
  if (warmup_steps == 0 || warmup_steps < span.total_steps + (span.is_followed ? 1 : 0)) return;
  throw config_error(
      fmt::format("schedule.warmup_steps ({}) must be {} ({})", warmup_steps,
                  span.is_followed ? "at most its `steps`" : "less than the steps of the run",
                  span.total_steps));
}

ScheduleRegistry& schedule_registry() {
  static ScheduleRegistry registry("schedule");
  return registry;
}

}  // namespace lockstep
