// `lockstep runs` apart from the process: what it prints goes to the streams given.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

namespace lockstep {

// `words`: what follows `lockstep runs`. `notes` gets what is said beside exported data. Returns
// the exit code; throws Config (unknown command, option or run, no directory) and Environment (the
// output cannot be written).
int run_runs_command(const std::vector<std::string>& words, std::ostream& out, std::ostream& notes);

}  // namespace lockstep
