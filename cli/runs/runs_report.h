// `lockstep runs export --html`: a run, or a comparison, as one HTML file.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

namespace lockstep::cli {

// `words`: "export ID... --html FILE [--dir RUNS]". Returns the exit code; throws Config and
// Environment.
int write_report(const std::vector<std::string>& words, std::ostream& out);

}  // namespace lockstep::cli
