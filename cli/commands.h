// The commands of the `lockstep` binary. Each takes its own arguments (argv[0] is the command's
// name), prints to stdout, throws Error, and returns the process's exit code.
#pragma once

namespace lockstep::cli {

int launch_command(int argc, char** argv);
int launch_node_command(int argc, char** argv);
int runs_command(int argc, char** argv);
int artifacts_command(int argc, char** argv);
int ui_command(int argc, char** argv);
int track_command(int argc, char** argv);
int sync_command(int argc, char** argv);
int doctor_command(int argc, char** argv);

}  // namespace lockstep::cli
