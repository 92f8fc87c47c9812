// Number of steps of a run.
#pragma once

#include <algorithm>
#include <cstdint>

#include "data/sampling/batch_plan.h"
#include "lockstep/schedule.h"
#include "trainer/config/run_config.h"

namespace lockstep::trainer {

inline ScheduleSpan length_of_run(const TrainSection& train, const data::BatchPlan& plan) {
  const auto per_epoch = (plan.batches_per_epoch + train.accumulate - 1) / train.accumulate;
  const auto total = per_epoch * train.epochs;
  return {.total_steps = std::min(total, train.max_steps.value_or(total)),
          .steps_per_epoch = per_epoch};
}

}  // namespace lockstep::trainer
