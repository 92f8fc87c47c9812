// Number of steps of a run.
#pragma once

#include <algorithm>
#include <cstdint>

#include "data/sampling/batch_plan.h"
#include "data/sampling/batch_shares.h"
#include "lockstep/schedule.h"
#include "trainer/config/run_config.h"
#include "trainer/state/position.h"

namespace lockstep::trainer {

// Of a run that continues at `position`, whose steps may have had other sizes until then. With
// steps of one size, it is the same at every position.
inline ScheduleSpan length_of_run(const TrainSection& train, const data::BatchPlan& plan,
                                  const Position& position = {}) {
  const auto steps_for = [&](int64_t batches) {
    return (batches + train.accumulate - 1) / train.accumulate;
  };
  const data::BatchShares rest(plan.num_samples - position.samples, {}, plan.rule);
  const auto per_epoch = steps_for(plan.batches_per_epoch);
  const auto next_epoch = position.step + steps_for(rest.num_batches());  // its first step
  const auto total =
      std::max(position.step, next_epoch + per_epoch * (train.epochs - position.epoch - 1));
  return {.total_steps = std::min(total, train.max_steps.value_or(total)),
          .steps_per_epoch = per_epoch,
          .epoch_shift = per_epoch * (position.epoch + 1) - next_epoch};
}

}  // namespace lockstep::trainer
