// The `lockstep` binary: one table of commands. It does not link LibTorch, so that it starts fast.
#include <fmt/format.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <string>
#include <vector>

#include "cli/command_words.h"
#include "cli/commands.h"
#include "cli/trainer_program.h"
#include "core/config/nearest_name.h"
#include "formats/store/object_store.h"
#include "launch/environment/torch_folder.h"
#include "lockstep/error.h"

namespace lockstep::cli {
namespace {

int help_command(int, char**);

struct Command {
  const char* name;
  const char* help;  // nullptr: internal, not listed
  int (*run)(int argc, char** argv);
};
constexpr auto kCommands = std::to_array<Command>({
    {"launch", "train on several ranks: start them, show their output, stop all if one fails",
     launch_command},
    {"launch-node", nullptr, launch_node_command},  // started over ssh by launch --hostfile
    {"track", nullptr, track_command},
    {"train", "train in one process, like lockstep-trainer", train_command},
    {"plan", "estimate steps, memory and communication of a run, without starting it",
     plan_command},
    {"runs", "list, show, watch, compare, export, stop, tag and remove runs", runs_command},
    {"sweep", "search hyper-parameters: trials of a run file, pruned and continued", sweep_command},
    {"ui", "serve the dashboard: runs, groups and ranks in a browser", ui_command},
    {"mcp", "let assistants read runs, over the Model Context Protocol", mcp_command},
    {"artifacts", "store and retrieve versioned files of runs", artifacts_command},
    {"ckpt", "list, verify, compare, export and fetch the checkpoints of a run", ckpt_command},
    {"verify", "recompute a stretch of a run from a checkpoint and compare bits", verify_command},
    {"verify-setup", "check before a long run that its results are reproducible",
     verify_setup_command},
    {"sync", "send a recorded run to its sinks", sync_command},
    {"doctor", "check whether this machine is ready to train, or a bucket to be used",
     doctor_command},
    {"new", "write a project: a run file, or a model, dataset or sink as a plugin", new_command},
    {"schema", "print the JSON Schema of the run file", schema_command},
    {"completion", "print a completion script for bash, zsh or fish", completion_command},
    {"complete", nullptr, complete_command},  // called by these scripts
    {"man", "print a man page", man_command},
    {"version", "print the version, and which LibTorch it uses", version_command},
    {"help", "show this help, or that of a command", help_command},
});

// Throws Config, suggesting the nearest, if there is no such command.
const Command& command_called(const std::string& given) {
  std::vector<std::string> names;
  for (const auto& command : kCommands) {
    if (given == command.name) return command;
    if (command.help) names.emplace_back(command.name);
  }
  const auto problem =
      given.empty() ? "a command is missing" : fmt::format("unknown command '{}'", given);
  throw config_error(problem + suggest(given, names));
}

// `lockstep help COMMAND` is `lockstep COMMAND --help`.
int help_command(int argc, char** argv) {
  if (argc > 1 && !wants_help({argv[1]})) {
    std::string option = "--help";
    char* words[] = {argv[1], option.data(), nullptr};
    return command_called(argv[1]).run(2, words);
  }
  fmt::print("usage: lockstep [--torch DIR] COMMAND [OPTION...]\n\ncommands:\n");
  for (const auto& command : kCommands)
    if (command.help) fmt::print("  {:<14}{}\n", command.name, command.help);
  fmt::print(
      "\n--torch DIR: use the LibTorch of this environment or folder, like LOCKSTEP_TORCH.\n");
  fmt::print("Run 'lockstep COMMAND --help' for the options of a command.\n");
  return 0;
}

}  // namespace

std::vector<ListedCommand> listed_commands() {
  std::vector<ListedCommand> listed;
  for (const auto& command : kCommands)
    if (command.help) listed.push_back({command.name, command.help});
  return listed;
}

namespace {

int run(int argc, char** argv) {
  const std::string given = argc > 1 ? argv[1] : "";
  if (given == "--torch") {
    if (argc < 3) throw config_error("--torch needs a directory");
    launch::name_torch(argv[2]);
    return run(argc - 2, argv + 2);
  }
  if (given == "--help" || given == "-h") return help_command(1, argv);
  if (given == "--version") return version_command(argc - 1, argv + 1);
  return command_called(given).run(argc - 1, argv + 1);
}

}  // namespace
}  // namespace lockstep::cli

int main(int argc, char** argv) {
  // If the parent has left it ignored, the exit status of children is lost.
  std::signal(SIGCHLD, SIG_DFL);
  try {
    lockstep::formats::set_arrow_folder(lockstep::cli::arrow_next_to_torch);
    return lockstep::cli::run(argc, argv);
  } catch (const lockstep::Error& error) {
    std::fprintf(stderr, "lockstep: error: %s\n", error.what());
    return error.exit_code();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "lockstep: error: %s\n", error.what());
    return static_cast<int>(lockstep::ErrorKind::Bug);
  }
}
