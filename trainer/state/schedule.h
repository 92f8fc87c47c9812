// Schedules: how the learning rate changes over the steps of a run. Pure arithmetic, so that a
// resumed run needs no state.
#pragma once

#include <cstdint>

#include "core/config/registry.h"

namespace lockstep {

// What a schedule may depend on.
struct ScheduleSpan {
  int64_t total_steps = 0;      // optimizer steps of the whole run
  int64_t steps_per_epoch = 0;  // optimizer steps of an epoch
};

class Schedule {
 public:
  virtual ~Schedule() = default;

  // What the optimizer's learning rate is multiplied with in step `step` (the first is 0).
  virtual double factor(int64_t step) const = 0;
};

// Linear warm-up: what `step` is multiplied with, 1 once `warmup_steps` are over.
double warmup_factor(int64_t step, int64_t warmup_steps);

// Throws Config when no step of the run is left after the warm-up.
void verify_warmup(int64_t warmup_steps, const ScheduleSpan& span);

using ScheduleRegistry = Registry<Schedule, const ScheduleSpan&>;
ScheduleRegistry& schedule_registry();

}  // namespace lockstep

// Once per schedule, at namespace scope of its file. `type`: a Schedule with a Config and a
// constructor (const Config&, const ScheduleSpan&).
#define REGISTER_SCHEDULE(name, type, help)                           \
  static const ::lockstep::Registration<type> registration_of_##type( \
      ::lockstep::schedule_registry(), name, help)
