// `lockstep plan` estimates steps, memory and communication of a run without starting it, and
// `lockstep-trainer --dry-run` also checks the run.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "trainer/commands/command_output.h"
#include "trainer/prepared/prepared_run.h"

namespace lockstep::trainer {

// `words`: the arguments after `lockstep plan`. Throws Config for invalid arguments, and where
// plan_run() does.
CommandOutput plan_command(const std::vector<std::string>& words);

// Checks all that can be checked without starting a run (device, run file, datasets, initial weights,
// and model and data with one batch of one rank), and returns the rendered plan. `run_id`: a run to
// resume: the weights of its last good checkpoint must fit (the averaged ones, if there are some);
// optimizer state and position are not read. Writes no file. Throws what training would.
std::string dry_run(const PreparedRun& run, const std::optional<std::string>& run_id);

}  // namespace lockstep::trainer
