// The sweeps of a directory of runs.
#pragma once

#include <filesystem>
#include <iosfwd>

namespace lockstep::cli {

// Newest first: name, state, number of trials by state, best result. `json`: a list of what
// `lockstep sweep show --json` prints, without the trials. Those that cannot be read come last, with
// the problem. Throws Config if `runs` is not a directory.
void print_sweeps(const std::filesystem::path& runs, bool json, std::ostream& out);

}  // namespace lockstep::cli
