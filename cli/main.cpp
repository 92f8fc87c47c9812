// The `lockstep` binary: one table of commands. It links no LibTorch, so that it answers at once.
#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/trainer_program.h"
#include "core/config/nearest_name.h"
#include "lockstep/error.h"
#include "lockstep/version.h"

namespace lockstep::cli {
namespace {

int version_command(int, char**);
int help_command(int, char**);

struct Command {
  const char* name;
  const char* help;
  int (*run)(int argc, char** argv);
};
constexpr std::array<Command, 14> kCommands = {{
    {"launch", "train on several ranks: start them, show their output, stop all when one fails",
     launch_command},
    {"launch-node", "the part of 'launch --hostfile' on a host; ssh starts it",
     launch_node_command},
    {"train", "train as one process: the same as lockstep-trainer", train_command},
    {"plan", "what a run file is going to be on so many ranks, before they are started",
     plan_command},
    {"runs", "list, show, watch, compare, export, stop, tag and remove runs", runs_command},
    {"ui", "the dashboard: look at runs, groups and ranks in a browser", ui_command},
    {"artifacts", "keep and fetch versioned files of the runs", artifacts_command},
    {"ckpt", "list, verify and compare the checkpoints of a run", ckpt_command},
    {"sync", "send a recorded run to its sinks", sync_command},
    {"track", "the tracking agent of a node; the trainer starts it", track_command},
    {"doctor", "look whether this machine can train", doctor_command},
    {"schema", "print the JSON Schema of the run file", schema_command},
    {"version", "print the version", version_command},
    {"help", "print this", help_command},
}};

int version_command(int, char**) {
  fmt::print("lockstep {}\n", kVersion);
  return 0;
}

int help_command(int, char**) {
  fmt::print("usage: lockstep COMMAND ...\n\ncommands:\n");
  for (const auto& command : kCommands) fmt::print("  {:<12}{}\n", command.name, command.help);
  fmt::print("\n'lockstep COMMAND --help' tells more about one.\n");
  return 0;
}

int run(int argc, char** argv) {
  const std::string given = argc > 1 ? argv[1] : "";
  if (given == "--help" || given == "-h") return help_command(argc, argv);
  if (given == "--version") return version_command(argc, argv);
  std::vector<std::string> names;
  for (const auto& command : kCommands) {
    if (given == command.name) return command.run(argc - 1, argv + 1);
    names.emplace_back(command.name);
  }
  const auto problem =
      given.empty() ? "a command is missing" : fmt::format("unknown command '{}'", given);
  throw config_error(problem + suggest(given, names));
}

}  // namespace
}  // namespace lockstep::cli

int main(int argc, char** argv) {
  try {
    return lockstep::cli::run(argc, argv);
  } catch (const lockstep::Error& error) {
    std::fprintf(stderr, "lockstep: error: %s\n", error.what());
    return error.exit_code();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "lockstep: error: %s\n", error.what());
    return static_cast<int>(lockstep::ErrorKind::Bug);
  }
}
