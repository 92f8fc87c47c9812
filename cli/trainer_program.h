// The trainer: the program next to this one that links LibTorch.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace lockstep::cli {

// "<directory of this binary>/lockstep-trainer". Throws Environment.
std::string trainer_program();

// What `lockstep-trainer ARGUMENTS` prints, as program_output(). Of the environment, it gets only what
// it needs to find LibTorch: it is not a rank.
std::string trainer_output(std::vector<std::string> arguments, std::chrono::milliseconds timeout);

// The JSON Schema of the run file: that of the installation, which needs no LibTorch, else what the
// trainer prints. Empty if neither exists.
std::string run_file_schema();

// The path of this program. Throws Environment.
std::string own_program();

// `lockstep train ARGS`: replaces the process with `lockstep-trainer ARGS`. Throws Config if it
// cannot be executed.
int train_command(int argc, char** argv);

// `lockstep schema|ckpt|plan ARGS`: the same with `lockstep-trainer --schema|--checkpoints|--plan`.
int schema_command(int argc, char** argv);
int ckpt_command(int argc, char** argv);
int plan_command(int argc, char** argv);

// `lockstep doctor s3://...`: the same with `lockstep-trainer --check-store`.
[[noreturn]] void check_store_with_trainer(const std::string& path, int timeout_s, bool as_json);

}  // namespace lockstep::cli
