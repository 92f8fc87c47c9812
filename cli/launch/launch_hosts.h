// `lockstep launch --hostfile`: one launcher on each host, with the flags that make them one job.
#pragma once

#include <string>

#include "cli/launch/launch_arguments.h"

namespace lockstep::cli {

// `run_id`: of the run that this launch makes or goes on with. Prints what the hosts say. Returns
// the exit code. Throws Config or Environment.
int launch_on_hosts(const LaunchArguments& arguments, const std::string& run_id);

}  // namespace lockstep::cli
