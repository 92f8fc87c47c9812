// Parameters that a run does not train: train.freeze, and groups of the optimizer.
#pragma once

#include "lockstep/model.h"
#include "trainer/config/run_config.h"

namespace lockstep::trainer {

// Throws Config: a name or pattern matches no parameter, nothing would be trained, or `model` is
// compiled.
void freeze_parameters(Model& model, const RunConfig& config);

}  // namespace lockstep::trainer
