// `lockstep launch --hostfile`: starts one launcher per host, with flags that make them one job.
#pragma once

#include <string>

#include "cli/launch/launch_arguments.h"

namespace lockstep::cli {

// `run_id`: the run to create or resume. Prints the output of the hosts. Returns the exit code.
// Throws Config or Environment.
int launch_on_hosts(const LaunchArguments& arguments, const std::string& run_id);

// The number of ranks on all hosts of --hostfile. Throws Config, also if only the hosts know it (-n auto).
int ranks_on_hosts(const LaunchArguments& arguments);

}  // namespace lockstep::cli
