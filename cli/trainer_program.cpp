#include "cli/trainer_program.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <vector>

#include "cli/command_words.h"
#include "core/system/durable_file.h"
#include "dashboard/api/program_output.h"
#include "lockstep/error.h"
#include "lockstep/rank_env.h"

namespace lockstep::cli {
namespace {

constexpr const char* kTrainHelp = R"(lockstep train: train in one process, like lockstep-trainer

  lockstep train CONFIG [key.subkey=value ...] [--resume RUN_ID]

Runs the training that the run file CONFIG describes. Values after CONFIG override those of the file.

  --resume RUN_ID   resume this run from its last checkpoint

Takes all options of lockstep-trainer, such as --dry-run, --evaluate and --generate.
`lockstep-trainer --help [CONFIG]` describes them, and the keys of a run file. On several ranks:
lockstep launch.
)";

constexpr const char* kSchemaHelp = R"(lockstep schema: print the JSON Schema of the run file

  lockstep schema [CONFIG | PLUGIN.so ...]

Editors complete and check the keys of a run file that names a schema in its first line:
  lockstep schema > run_file.schema.json
  # yaml-language-server: $schema=run_file.schema.json

With PLUGINs, or a run file CONFIG that names plugins, their parts are included.
)";

[[noreturn]] void exec_trainer(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), trainer_program());
  std::vector<char*> argv;
  for (auto& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  ::execv(argv[0], argv.data());
  throw config_error(fmt::format("cannot start '{}': {}", arguments[0], std::strerror(errno)));
}

[[noreturn]] void exec_trainer_with(const char* option, int argc, char** argv) {
  std::vector<std::string> arguments(argv + 1, argv + argc);
  arguments.insert(arguments.begin(), option);
  exec_trainer(std::move(arguments));
}

}  // namespace

std::string own_program() {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error)
    throw environment_error(fmt::format("cannot read /proc/self/exe: {}", error.message()));
  // The kernel's mark of a program whose file was replaced, e.g. by a new version.
  constexpr std::string_view kReplaced = " (deleted)";
  auto path = self.string();
  if (path.ends_with(kReplaced) && !std::filesystem::exists(self, error))
    path.resize(path.size() - kReplaced.size());
  return path;
}

std::string trainer_program() {
  return (std::filesystem::path(own_program()).parent_path() / "lockstep-trainer").string();
}

std::string trainer_output(std::vector<std::string> arguments, std::chrono::milliseconds timeout) {
  arguments.insert(arguments.begin(), trainer_program());
  std::vector<std::string> variables;
  for (const char* name : {"LOCKSTEP_TORCH", "VIRTUAL_ENV", "CONDA_PREFIX", "PATH", "HOME",
                           "PYTHONPATH", "LD_LIBRARY_PATH"})
    if (const auto value = environment(name))
      variables.push_back(fmt::format("{}={}", name, *value));
  return dashboard::program_output(arguments, timeout, variables);
}

std::string run_file_schema() {
  constexpr size_t kMaxBytes = 64u << 20;
  const auto file = std::filesystem::path(own_program()).parent_path().parent_path() / "share" /
                    "lockstep" / "run_file.schema.json";
  std::error_code error;
  if (std::filesystem::exists(file, error)) return read_file(file, kMaxBytes);
  return trainer_output({"--schema"}, std::chrono::seconds(20));
}

int train_command(int argc, char** argv) {
  // With a run file, the trainer adds the keys of its plugins.
  if (argc == 2 && wants_help({argv[1]})) return std::fputs(kTrainHelp, stdout) < 0;
  exec_trainer({argv + 1, argv + argc});
}

int schema_command(int argc, char** argv) {
  if (wants_help({argv + 1, argv + argc})) return std::fputs(kSchemaHelp, stdout) < 0;
  exec_trainer_with("--schema", argc, argv);
}
int ckpt_command(int argc, char** argv) { exec_trainer_with("--checkpoints", argc, argv); }
int plan_command(int argc, char** argv) { exec_trainer_with("--plan", argc, argv); }

void check_store_with_trainer(const std::string& path, int timeout_s, bool as_json) {
  exec_trainer({"--check-store", path, std::to_string(timeout_s), as_json ? "json" : "text"});
}

}  // namespace lockstep::cli
