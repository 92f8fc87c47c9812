// `lockstep runs watch`: a run in the terminal while it goes on.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

namespace lockstep::cli {

// `words`: "watch ID [--once] [--dir RUNS]". Shows the run until it is over or somebody interrupts;
// once where `out` is no terminal. Returns the exit code; throws Config and Environment.
int watch_run(const std::vector<std::string>& words, std::ostream& out);

// `values` as a line of `width` blocks, each the mean of as many neighbors; ' ' where there is no
// number. UTF-8.
std::string small_curve(const std::vector<double>& values, size_t width);

}  // namespace lockstep::cli
