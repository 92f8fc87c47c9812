// The interface of schedules: how the learning rate changes over the steps of a run. A schedule is
// a function of the step, so a resumed run needs no state.
//
// Example:
//   struct HalvingConfig {
//     int64_t every = 1000;
//   };
//   template <class V>
//   void fields(V& v, HalvingConfig& c) {
//     v("every", c.every, "steps until the next halving", lockstep::at_least(1));
//   }
//
//   class Halving final : public lockstep::Schedule {
//    public:
//     using Config = HalvingConfig;
//     Halving(const Config& config, const lockstep::ScheduleSpan&) : every_(config.every) {}
//     double factor(int64_t step) const override { return std::exp2(-(step / every_)); }
//
//    private:
//     int64_t every_;
//   };
//   REGISTER_SCHEDULE("halving", Halving, "half the learning rate every so many steps");
#pragma once

#include <cstdint>

#include "lockstep/registry.h"

namespace lockstep {

// What a schedule may depend on. Both are known before the first step.
struct ScheduleSpan {
  int64_t total_steps = 0;      // optimizer steps of the whole run
  int64_t steps_per_epoch = 0;  // optimizer steps of an epoch
};

class Schedule {
 public:
  virtual ~Schedule() = default;

  // The factor of the optimizer's learning rate in step `step` (the first is 0). Called on every
  // rank, which must get the same result.
  virtual double factor(int64_t step) const = 0;
};

// Linear warm-up: the factor of step `step`, 1 after `warmup_steps` steps.
double warmup_factor(int64_t step, int64_t warmup_steps);

// Throws Config when the run ends before the warm-up does.
void verify_warmup(int64_t warmup_steps, const ScheduleSpan& span);

using ScheduleRegistry = Registry<Schedule, const ScheduleSpan&>;
ScheduleRegistry& schedule_registry();

}  // namespace lockstep

// At namespace scope, once per schedule. `type`: a Schedule with a Config and a constructor
// (const Config&, const ScheduleSpan&).
#define REGISTER_SCHEDULE(name, type, help)                           \
  static const ::lockstep::Registration<type> registration_of_##type( \
      ::lockstep::schedule_registry(), name, help)
