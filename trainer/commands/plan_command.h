// `lockstep plan`: estimates steps, memory and communication of a run without starting it.
#pragma once

#include <string>
#include <vector>

#include "trainer/commands/command_output.h"

namespace lockstep::trainer {

// `words`: the arguments after `lockstep plan`. Throws Config for invalid arguments, and where
// plan_run() does.
CommandOutput plan_command(const std::vector<std::string>& words);

}  // namespace lockstep::trainer
