// Runs a program and captures its output.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace lockstep::dashboard {

// The standard output of `command`, which begins with the path of the program. Empty if it cannot
// be started or fails, or if it runs longer than `timeout` or prints 16 MiB and is killed.
// `environment`: its complete environment, as "NAME=value".
std::string program_output(const std::vector<std::string>& command,
                           std::chrono::milliseconds timeout,
                           const std::vector<std::string>& environment = {});

}  // namespace lockstep::dashboard
