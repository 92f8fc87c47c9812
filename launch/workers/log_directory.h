// Log directories of a launch: <log_dir>/attempt_<n>/<local rank>/, as torchrun's. Of a process that is started again
// in an attempt, for the k-th time: <log_dir>/attempt_<n>/<local rank>.<k>/.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

namespace lockstep::launch {

// Claims the directory of an attempt, given the run and the node's number.
using LogDirectory = std::function<std::filesystem::path(const std::string& run_id, int node_rank)>;

// Creates the first <log_dir>/attempt_<n> that does not exist: logs of earlier attempts are kept,
// and two launchers never share a directory. Throws Environment.
std::filesystem::path claim_attempt(const std::filesystem::path& log_dir);
// The name in it; `start`: k, 0 for the first.
std::string start_directory(int local_rank, int start);

}  // namespace lockstep::launch
