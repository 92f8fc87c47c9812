// What a command says with --help, as data: for completion and man pages.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace lockstep::cli {

inline constexpr std::chrono::seconds kHelpTimeout{20};
// After the options, in the help of the trainer.
inline constexpr const char* kRunFileKeys = "\nKeys of a run file:\n";

struct HelpOption {
  std::string name;   // "--dir", or "-n"
  std::string value;  // "RUNS"; empty for a flag
  std::string help;   // the first line of its description
};

struct HelpPage {
  // Empty if the command has none, such as those of the trainer without LibTorch. Without the keys of
  // the run file.
  std::string text;
  std::vector<HelpOption> options;
  // Lines such as "lockstep runs show ID [--dir RUNS] [--json]".
  std::vector<std::string> usages;
};

// Runs `lockstep COMMAND --help` as a child process.
HelpPage read_help(const std::string& command);

}  // namespace lockstep::cli
