// `lockstep plan`: what a run file is going to be on so many ranks.
#pragma once

#include <string>
#include <vector>

#include "trainer/commands/command_output.h"

namespace lockstep::trainer {

// `words`: what stands behind `lockstep plan`. Throws Config for words that mean nothing, and where
// plan_run() does.
CommandOutput plan_command(const std::vector<std::string>& words);

}  // namespace lockstep::trainer
