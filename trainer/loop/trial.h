// A few samples through the model before a run begins: what does not fit is an error before
// anything of the run exists, and the names of the evaluation's metrics are known.
#pragma once

#include <c10/core/Device.h>

#include "data/dataset.h"
#include "models/model.h"
#include "trainer/config/run_config.h"

namespace lockstep {

struct TrialParts {
  const RunConfig& config;
  Model& model;  // on `device`, in training mode, as it is afterwards
  const Dataset& train_set;
  const Dataset* eval_set = nullptr;
  at::Device device = at::kCPU;
};

// Evaluates the first samples of both datasets, without a trace: weights, buffers and random
// numbers stay as they are. Throws Config when data and model do not fit together, or when
// train.early_stop.metric or checkpoint.keep_best.metric is none of the evaluation's.
void try_model(const TrialParts& parts);

// Forward and backward pass of the first batch of `plan` in training mode. The gradients stay in
// the model. Throws Config.
void try_step(const TrialParts& parts, const BatchPlan& plan);

}  // namespace lockstep
