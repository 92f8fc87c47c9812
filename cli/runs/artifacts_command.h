// `lockstep artifacts` apart from the process: what it prints goes to the streams given.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

namespace lockstep::cli {

// `words`: what follows `lockstep artifacts`. Returns the exit code, 75 when verify finds damage;
// throws Config (unknown command, option or artifact) and Environment (a damaged store, a full
// disk, the output cannot be written).
int run_artifacts_command(const std::vector<std::string>& words, std::ostream& out,
                          std::ostream& notes);

}  // namespace lockstep::cli
