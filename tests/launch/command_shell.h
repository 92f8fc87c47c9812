// Runs the `lockstep` binary itself in a temporary directory, with shell scripts as workers.
#pragma once

#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/launch/environment_guard.h"
#include "tests/launch/text_of.h"
#include "tests/temporary_directory.h"

namespace lockstep::launch {

class Shell {
 public:
  struct Result {
    int exit_code;
    std::string out, err;
  };

  // Runs `lockstep ARGUMENTS` in the temporary directory.
  Result lockstep(const std::string& arguments, const std::string& out = "out.txt") const {
    return run(LOCKSTEP_PROGRAM " " + arguments + " >" + out + " 2>err.txt");
  }
  Result run(const std::string& command) const {
    const auto line = "cd " + directory.path().string() + " && " + command;
    const int status = std::system(line.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, text("out.txt"), text("err.txt")};
  }
  std::string text(const std::string& name) const { return text_of(directory.path() / name); }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(directory.path() / name) << text;
  }
  bool has(const std::string& name) const {
    return std::filesystem::exists(directory.path() / name);
  }

  EnvironmentGuard environment;
  TemporaryDirectory directory;
};

}  // namespace lockstep::launch
