// Finds wandb-core, the program in the Python package wandb that uploads .wandb files.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "lockstep/sink.h"

namespace lockstep::tracking {

// Returns `configured` if set. Else the first of: wandb-core in a directory of PATH; the package
// wandb of the virtual environment (VIRTUAL_ENV), next to a `python3` in a directory of PATH, or of
// the user (~/.local). Does not start Python. Throws Config with instructions if none is found, or
// `configured` is not a program.
std::filesystem::path find_wandb_core(const std::optional<std::string>& configured,
                                      const Environment& environment);

}  // namespace lockstep::tracking
