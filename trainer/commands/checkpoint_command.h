// `lockstep ckpt`: lists, verifies, compares and exports checkpoints.
#pragma once

#include <string>
#include <vector>

#include "trainer/commands/command_output.h"
#include "trainer/commands/export/checkpoint_export.h"

namespace lockstep::trainer {

// `words`: the arguments after `lockstep ckpt`. Exit code of verify: 75 if a checkpoint is corrupt;
// of diff: 1 if the checkpoints differ. `show`: for progress. Throws Config for invalid arguments and for runs and
// checkpoints that do not exist; Environment if diff is given a corrupt one.
CommandOutput checkpoint_command(const std::vector<std::string>& words,
                                 const ShowProgress& show = {});

}  // namespace lockstep::trainer
