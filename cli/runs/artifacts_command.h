// `lockstep artifacts` as a function that writes to given streams, for the process and for tests.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

namespace lockstep::cli {

// `words`: the arguments after `lockstep artifacts`. Returns the exit code, 75 if verify finds
// corruption; throws Config (unknown command, option or artifact) and Environment (a corrupt store,
// a full disk, the output cannot be written).
int run_artifacts_command(const std::vector<std::string>& words, std::ostream& out,
                          std::ostream& notes);

}  // namespace lockstep::cli
