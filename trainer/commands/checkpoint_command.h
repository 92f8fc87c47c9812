// `lockstep ckpt`: looks at the checkpoints of runs, and changes nothing.
#pragma once

#include <string>
#include <vector>

#include "trainer/commands/command_output.h"

namespace lockstep::trainer {

// `words`: what stands behind `lockstep ckpt`. Exit code of verify: 75 when one is damaged; of
// diff: 1 when they differ. Throws Config for words that mean nothing and for runs and checkpoints
// that are not there; Environment for damaged ones that diff is to compare.
CommandOutput checkpoint_command(const std::vector<std::string>& words);

}  // namespace lockstep::trainer
