// `lockstep runs` as a function that writes to given streams, for the process and for tests.
#pragma once

#include <functional>
#include <iosfwd>
#include <string>
#include <vector>

namespace lockstep::cli {

// Asks the user at the terminal; true for yes. Empty if there is no terminal.
using AskUser = std::function<bool(const std::string& question)>;

// `words`: the arguments after `lockstep runs`. `notes` receives warnings.
// Returns the exit code; throws Config (unknown command, option or run, no directory) and
// Environment (the output cannot be written, a run cannot be changed).
int run_runs_command(const std::vector<std::string>& words, std::ostream& out, std::ostream& notes,
                     const AskUser& ask = {});

}  // namespace lockstep::cli
