// The interface of schedules, which define the learning rate over the steps of a run. A schedule is
// a function of the step, so it has no state to save.
//
// Example:
//   struct HalvingConfig {
//     int64_t every = 1000;
//   };
//   template <class V>
//   void fields(V& v, HalvingConfig& c) {
//     v("every", c.every, "steps between two halvings", lockstep::at_least(1));
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
//   REGISTER_SCHEDULE("halving", Halving, "halves the learning rate at fixed intervals");
#pragma once

#include <algorithm>
#include <cstdint>

#include "lockstep/registry.h"

namespace lockstep {

// The inputs of a schedule, known before the first step that a process trains.
struct ScheduleSpan {
  int64_t total_steps = 0;      // optimizer steps in the run
  int64_t steps_per_epoch = 0;  // optimizer steps in an epoch
  // Epoch e begins this many steps before e * steps_per_epoch: not 0 if the run was resumed with
  // another number of samples per step.
  int64_t epoch_shift = 0;
  bool is_followed = false;  // by another schedule, which begins after total_steps

  // The epoch of step `step` (both 0-based), which is not before the step at which the run was
  // resumed.
  int64_t epoch_of(int64_t step) const {
    return (step + epoch_shift) / std::max<int64_t>(1, steps_per_epoch);
  }
};

class Schedule {
 public:
  virtual ~Schedule() = default;

  // The factor by which to multiply the optimizer's learning rate in step `step` (0-based). Called
  // on every rank; must return the same value on all of them.
  virtual double factor(int64_t step) const = 0;
};

// Linear warm-up: the factor for step `step`; 1 from step `warmup_steps` on.
double warmup_factor(int64_t step, int64_t warmup_steps);

// Throws Config if nothing of the span is left after the warm-up, unless another schedule follows.
void verify_warmup(int64_t warmup_steps, const ScheduleSpan& span);

using ScheduleRegistry = Registry<Schedule, const ScheduleSpan&>;
ScheduleRegistry& schedule_registry();

}  // namespace lockstep

// Registers a schedule. Use at namespace scope. `type`: a Schedule with a member type Config and a
// constructor (const Config&, const ScheduleSpan&).
#define REGISTER_SCHEDULE(name, type, help)                           \
  static const ::lockstep::Registration<type> registration_of_##type( \
      ::lockstep::schedule_registry(), name, help)
