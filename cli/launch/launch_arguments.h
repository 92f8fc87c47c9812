// The command line of `lockstep launch`, as values.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "launch/options/tee_spec.h"
#include "launch/protocol/rendezvous_options.h"

namespace lockstep::cli {

struct LaunchArguments {
  int num_workers = 1;
  std::string master_addr;  // with one node
  int master_port = 0;
  launch::RendezvousOptions rendezvous;  // without agreements
  std::string rdzv_id;
  int max_restarts = 0;
  std::chrono::milliseconds restart_window{}, restart_delay{};
  std::chrono::milliseconds monitor_interval{};
  std::optional<std::string> log_dir, run_id, resume, program;
  std::optional<std::string> predict;  // train nothing, predict into this file
  // The scheduler's step that this launch is ("slurm-1234-0"); empty where none says so.
  std::string job;
  bool job_restarted = false;
  // Start a launcher on each host of this file through `ssh`, with these variables.
  std::optional<std::string> hostfile, remote_lockstep;
  std::string ssh;
  std::vector<std::string> exported;
  std::optional<std::string> wanted_workers, given_master_addr;  // as they were given
  std::vector<std::string> forwarded;  // options that the hosts' launchers get as well
  std::string role;
  launch::TeeSpec tee;
  std::chrono::milliseconds stop_grace{};
  // CONFIG and its overrides, or whatever a program of one's own takes.
  std::vector<std::string> rest;
  // --new-token: nothing else is to be done.
  std::optional<std::string> new_token;
  // --help was given: `help` is to be printed, nothing else is set.
  bool wants_help = false;
  std::string help;
};

// What the command line does not say is taken from PET_<NAME>, as torchrun does: PET_NNODES. Throws
// Config, in one line, for what it does not understand.
LaunchArguments parse_launch_arguments(int argc, char** argv);

}  // namespace lockstep::cli
