// Estimates steps, memory and communication of a run on a given number of ranks.
#pragma once

#include "trainer/commands/plan/measured_activations.h"
#include "trainer/prepared/prepared_run.h"

namespace lockstep::trainer {

// Returns {"ranks", "data", "steps", "learning_rate", "model", "memory", "activations"} and, with
// several ranks, "sharding" and "gradients": numbers and names, null where they depend on data that
// are not there. `run`: of prepare_plan() or prepare_training(). `has_copies`: as in PlannedSizes.
// Throws Config.
Json plan_run(const PreparedRun& run, const Activations& activations, bool has_copies = false);

// Human-readable form of plan_run()'s result.
std::string render_plan(const Json& plan);

}  // namespace lockstep::trainer
