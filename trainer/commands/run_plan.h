// What a run is going to be on so many ranks, before any of them is started.
#pragma once

#include "trainer/prepared/prepared_run.h"

namespace lockstep::trainer {

// {"ranks", "data", "steps", "learning_rate", "model", "memory", "gradients"}: numbers and names
// alone. `run`: prepared for training. Builds an optimizer and trains nothing. Throws Config where
// a training would before its first step.
Json plan_run(const PreparedRun& run);

// `lockstep-trainer --dry-run`: checks all that can be checked without starting a run (device, run
// file, datasets, initial weights, and model and data with one batch of one rank), and returns the
// plan for people. Touches no file. Throws what a training would.
std::string dry_run(const PreparedRun& run);

// The same for people.
std::string render_plan(const Json& plan);

}  // namespace lockstep::trainer
