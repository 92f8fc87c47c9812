#include "cli/trainer_program.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <vector>

#include "core/system/durable_file.h"
#include "dashboard/api/program_output.h"
#include "lockstep/error.h"
#include "lockstep/rank_env.h"

namespace lockstep::cli {
namespace {

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
  return self.string();
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

int train_command(int argc, char** argv) { exec_trainer({argv + 1, argv + argc}); }

int schema_command(int argc, char** argv) { exec_trainer_with("--schema", argc, argv); }
int ckpt_command(int argc, char** argv) { exec_trainer_with("--checkpoints", argc, argv); }
int plan_command(int argc, char** argv) { exec_trainer_with("--plan", argc, argv); }

void check_store_with_trainer(const std::string& path, int timeout_s, bool as_json) {
  exec_trainer({"--check-store", path, std::to_string(timeout_s), as_json ? "json" : "text"});
}

}  // namespace lockstep::cli
