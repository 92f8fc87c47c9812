// What all nodes of a job must agree on; checked before any rank is started.
#pragma once

#include <string>
#include <vector>

#include "cli/launch/launch_arguments.h"
#include "launch/protocol/rendezvous_options.h"

namespace lockstep::cli {

// `program`: the program of the ranks. Throws Config if the run file cannot be read.
std::vector<launch::Agreement> job_agreements(const LaunchArguments& arguments,
                                              const std::string& program);

}  // namespace lockstep::cli
