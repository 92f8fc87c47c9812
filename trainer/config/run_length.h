// Number of steps of a run.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "data/sampling/batch_plan.h"
#include "data/sampling/batch_shares.h"
#include "lockstep/error.h"
#include "lockstep/run_info.h"
#include "lockstep/schedule.h"
#include "trainer/config/run_config.h"
#include "trainer/state/position.h"

namespace lockstep::trainer {

// Throws Config if the run has steps left, but the data end before its position in the epoch.
inline void verify_position(const TrainSection& train, const data::BatchPlan& plan,
                            const Position& position) {
  const auto epochs = train.num_epochs();
  const bool is_done = (epochs && position.epoch >= *epochs) ||
                       (train.max_steps && position.step >= *train.max_steps);
  if (is_done || position.samples <= plan.num_samples) return;
  throw config_error(fmt::format(
      "the checkpoint of step {} is after {} samples of an epoch, but data.train has only {}: "
      "resume with the data that the run began with, or start a new run with train.init_from",
      position.step, position.samples, plan.num_samples));
}

// Of a run that continues at `position`, whose steps may have had other sizes until then. With
// steps of one size, it is the same at every position. Throws Config, see verify_position().
inline ScheduleSpan length_of_run(const TrainSection& train, const data::BatchPlan& plan,
                                  const Position& position = {}) {
  verify_position(train, plan, position);
  const auto steps_for = [&](int64_t batches) {
    return (batches + train.accumulate - 1) / train.accumulate;
  };
  const auto samples_left = std::max<int64_t>(plan.num_samples - position.samples, 0);
  const data::BatchShares rest(samples_left, {}, plan.rule);
  const auto per_epoch = steps_for(plan.batches_per_epoch);
  const auto next_epoch = position.step + steps_for(rest.num_batches());  // its first step
  auto total = train.max_steps.value_or(0);
  if (const auto epochs = train.num_epochs()) {
    const auto all =
        std::max(position.step, next_epoch + per_epoch * (*epochs - position.epoch - 1));
    total = std::min(all, train.max_steps.value_or(all));
  }
  return {.total_steps = total,
          .steps_per_epoch = per_epoch,
          .epoch_shift = per_epoch * (position.epoch + 1) - next_epoch};
}

// As recorded: 0 epochs if their number is not limited.
inline RunLength planned_length(const TrainSection& train, int64_t total_steps) {
  return {total_steps, static_cast<double>(train.num_epochs().value_or(0))};
}

}  // namespace lockstep::trainer
