// `lockstep runs` apart from the process: what it prints goes to the streams given.
#pragma once

#include <functional>
#include <iosfwd>
#include <string>
#include <vector>

namespace lockstep::cli {

// Puts a question to the person at the terminal; true for yes. Empty: there is nobody to ask.
using AskUser = std::function<bool(const std::string& question)>;

// `words`: what follows `lockstep runs`. `notes` gets what is said beside the output proper.
// Returns the exit code; throws Config (unknown command, option or run, no directory) and
// Environment (the output cannot be written, a run cannot be changed).
int run_runs_command(const std::vector<std::string>& words, std::ostream& out, std::ostream& notes,
                     const AskUser& ask = {});

}  // namespace lockstep::cli
