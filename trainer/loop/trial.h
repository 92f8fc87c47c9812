// A few samples through the model before a run begins: what does not fit is an error before
// anything of the run exists, and the names of the evaluation's metrics are known.
#pragma once

#include <c10/core/Device.h>

#include "trainer/prepared/prepared_run.h"

namespace lockstep::trainer {

// Of both, the model is on `device` and in training mode, as it is afterwards.
//
// Evaluates the first samples of both datasets, without a trace: weights, buffers and random
// numbers stay as they are. Throws Config when data and model do not fit together, or when
// train.early_stop.metric or checkpoint.keep_best.metric is none of the evaluation's.
void try_model(const PreparedRun& run, at::Device device);

// Forward and backward pass of the first batch of the plan. The gradients stay in the model. Throws
// Config.
void try_step(const PreparedRun& run, at::Device device);

}  // namespace lockstep::trainer
