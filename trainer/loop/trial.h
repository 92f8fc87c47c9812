// Runs a few samples through the model before a run begins, so that errors are found before the run
// directory exists, and to learn the names of the evaluation's metrics.
#pragma once

#include <c10/core/Device.h>

#include "trainer/prepared/prepared_run.h"

namespace lockstep::trainer {

// For both, the model must be on `device` and in training mode; it is afterwards too.
//
// Evaluates the first samples of both datasets, without side effects: weights, buffers and random
// state are unchanged. Throws Config when data and model do not fit together, or when
// train.early_stop.metric or checkpoint.keep_best.metric is not a metric of the evaluation.
void try_model(const PreparedRun& run, at::Device device);

// Runs forward and backward pass of the first training batch. The gradients stay in the model.
// Throws Config.
void try_step(const PreparedRun& run, at::Device device);

}  // namespace lockstep::trainer
