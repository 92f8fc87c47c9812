// What the nodes of a job must have in common, so that a mistake is told before anything starts.
#pragma once

#include <string>
#include <vector>

#include "cli/launch/launch_arguments.h"
#include "launch/protocol/rendezvous_options.h"

namespace lockstep::cli {

// `program`: what is started. Throws Config when the run file cannot be read.
std::vector<launch::Agreement> job_agreements(const LaunchArguments& arguments,
                                              const std::string& program);

}  // namespace lockstep::cli
