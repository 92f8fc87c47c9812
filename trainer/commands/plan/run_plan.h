// Estimates steps, memory and communication of a run on a given number of ranks.
#pragma once

#include <optional>
#include <string>

#include "trainer/commands/plan/measured_activations.h"
#include "trainer/prepared/prepared_run.h"

namespace lockstep::trainer {

// Returns {"ranks", "data", "steps", "learning_rate", "model", "memory", "activations"} and, with
// several ranks, "sharding" and "gradients": numbers and names, null where they depend on data that
// are not there. `run`: of prepare_plan() or prepare_training(). `has_copies`: as in PlannedSizes.
// Throws Config.
Json plan_run(const PreparedRun& run, const Activations& activations, bool has_copies = false);

// `lockstep-trainer --dry-run`: checks all that can be checked without starting a run (device, run
// file, datasets, initial weights, and model and data with one batch of one rank), and returns the
// rendered plan. `run_id`: a run to resume, whose last good checkpoint must fit. Writes no file. Throws
// what training would.
std::string dry_run(const PreparedRun& run, const std::optional<std::string>& run_id);

// Human-readable form of plan_run()'s result.
std::string render_plan(const Json& plan);

}  // namespace lockstep::trainer
