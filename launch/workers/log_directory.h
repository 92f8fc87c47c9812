// Where the logs of a launch go: <log_dir>/attempt_<n>/<local rank>/, torchrun's layout.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

namespace lockstep::launch {

// Where the logs of this node go (log_dir), once the run and the node's number are known.
using LogDirectory = std::function<std::filesystem::path(const std::string& run_id, int node_rank)>;

// Creates the first <log_dir>/attempt_<n> that nobody has yet: the logs of an earlier attempt are
// kept, and two launchers never share one. Throws Environment.
std::filesystem::path claim_attempt(const std::filesystem::path& log_dir);

}  // namespace lockstep::launch
