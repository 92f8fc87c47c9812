// Result of a read-only command.
#pragma once

#include <string>

namespace lockstep::trainer {

struct CommandOutput {
  std::string text;  // for standard output
  int exit_code = 0;
};

}  // namespace lockstep::trainer
