// The commands of the `lockstep` binary. argv[0] is the name of the command. Each prints to
// stdout, throws Error, and returns the exit code of the process.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace lockstep::cli {

int launch_command(int argc, char** argv);
int launch_node_command(int argc, char** argv);
int runs_command(int argc, char** argv);
int artifacts_command(int argc, char** argv);
int ui_command(int argc, char** argv);
int ui_token_command(const std::vector<std::string>& words);  // `words`: "token", ...
int mcp_command(int argc, char** argv);
int track_command(int argc, char** argv);
int sync_command(int argc, char** argv);
int verify_command(int argc, char** argv);
int verify_setup_command(int argc, char** argv);
int sweep_command(int argc, char** argv);
int doctor_command(int argc, char** argv);
int version_command(int argc, char** argv);
int completion_command(int argc, char** argv);
int complete_command(int argc, char** argv);  // what the shells call
int man_command(int argc, char** argv);
int new_command(int argc, char** argv);

// The folder of Arrow's libraries: next to the LibTorch that training uses. Throws Environment.
std::filesystem::path arrow_next_to_torch();

struct ListedCommand {
  const char* name;
  const char* help;
};

// Those of `lockstep help`, in its order.
std::vector<ListedCommand> listed_commands();

}  // namespace lockstep::cli
