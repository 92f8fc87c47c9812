// The commands of `lockstep sweep` on a sweep that exists.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

namespace lockstep::cli {

// Whether it is one of list, show, best, stop, export, add, ask, tell.
bool is_sweep_subcommand(const std::string& word);

// `words`: the command and its arguments. Prints to `out`. Throws Config and Environment.
void run_sweep_subcommand(const std::vector<std::string>& words, std::ostream& out);

}  // namespace lockstep::cli
