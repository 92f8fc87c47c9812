// Finds wandb-core, the program in the Python package wandb that uploads .wandb files.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "lockstep/sink.h"

namespace lockstep::tracking {

// `configured` when given. Else the first of: wandb-core in a directory of PATH; the package wandb
// of the virtual environment (VIRTUAL_ENV); the package beside a `python3` in a directory of PATH;
// the user's own (~/.local). No Python is started. Throws Config, saying what can be done, when
// there is none, or `configured` is no program.
std::filesystem::path find_wandb_core(const std::optional<std::string>& configured,
                                      const Environment& environment);

}  // namespace lockstep::tracking
