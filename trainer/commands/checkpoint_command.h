// `lockstep ckpt`: lists, verifies and compares checkpoints; read-only.
#pragma once

#include <string>
#include <vector>

#include "trainer/commands/command_output.h"

namespace lockstep::trainer {

// `words`: the arguments after `lockstep ckpt`. Exit code of verify: 75 if a checkpoint is corrupt;
// of diff: 1 if the checkpoints differ. Throws Config for invalid arguments and for runs and
// checkpoints that do not exist; Environment if diff is given a corrupt one.
CommandOutput checkpoint_command(const std::vector<std::string>& words);

}  // namespace lockstep::trainer
