// What another program prints.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace lockstep::dashboard {

// The standard output of `command`, whose first word is its path. Empty when it cannot be started,
// fails, takes longer than `timeout` or prints more than 16 MiB; then it is killed.
std::string program_output(const std::vector<std::string>& command,
                           std::chrono::milliseconds timeout);

}  // namespace lockstep::dashboard
