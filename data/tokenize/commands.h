// The commands of lockstep-data. No LibTorch.
#pragma once

#include <ostream>
#include <string>
#include <vector>

namespace lockstep::data {

// `lockstep-data ARGUMENTS`. Returns the exit code. Throws Error.
int data_command(const std::vector<std::string>& arguments, std::ostream& out);

}  // namespace lockstep::data
