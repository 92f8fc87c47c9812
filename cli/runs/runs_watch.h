// `lockstep runs watch`: follows a run in the terminal.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

namespace lockstep::cli {

// `words`: "watch ID [--once] [--dir RUNS]". Shows the run until it ends or the user interrupts;
// once if stdout is not a terminal. Returns the exit code; throws Config and Environment.
int watch_run(const std::vector<std::string>& words, std::ostream& out);

// A sparkline of `values`: `width` UTF-8 blocks, each the mean of equally many values; ' ' if
// none is finite.
std::string small_curve(const std::vector<double>& values, size_t width);

}  // namespace lockstep::cli
