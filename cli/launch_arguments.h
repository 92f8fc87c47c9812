// The command line of `lockstep launch`, as values.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

struct LaunchArguments {
  int num_workers = 1;
  int num_nodes = 1, node_rank = 0;
  std::string master_addr;
  int master_port = 0;
  // What the scheduler calls this job ("slurm-1234-0"); empty where none does.
  std::string job;
  bool job_restarted = false;
  std::optional<std::string> log_dir, run_id, resume, program;
  // Start a launcher on each host of this file through `ssh`, with these variables.
  std::optional<std::string> hostfile, remote_lockstep;
  std::string ssh;
  std::vector<std::string> exported;
  bool has_num_workers = false, has_master_addr = false;  // said on the command line
  std::string tee;
  std::chrono::milliseconds grace{};
  // CONFIG and its overrides, or whatever a program of one's own takes.
  std::vector<std::string> rest;
  // --help was given: `help` is to be printed, nothing else is set.
  bool wants_help = false;
  std::string help;
};

// Throws Config, in one line, for what it does not understand.
LaunchArguments parse_launch_arguments(int argc, char** argv);

}  // namespace lockstep
