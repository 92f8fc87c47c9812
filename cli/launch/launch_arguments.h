// The parsed command line of `lockstep launch`.
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
  bool continues_on_loss = false;  // --on-rank-loss continue
  int num_spares = 0, rank_restarts = 0;
  std::chrono::milliseconds monitor_interval{};
  std::optional<std::string> log_dir, run_id, resume, program;
  std::optional<std::string> predict;   // train nothing, predict into this file
  std::optional<std::string> generate;  // train nothing, continue the prompts in this file
  bool evaluates = false;               // train nothing, evaluate the weights
  bool trains() const { return !predict && !generate && !evaluates; }
  // The scheduler's id of this job step ("slurm-1234-0"); empty without a scheduler.
  std::string job;
  bool job_restarted = false;
  // Start a launcher on each host of this file through `ssh`, with these variables.
  std::optional<std::string> hostfile, remote_lockstep;
  std::string ssh;
  std::vector<std::string> exported;
  std::optional<std::string> requested_workers, given_master_addr;  // as given
  std::vector<std::string> forwarded;  // options passed on to the launchers on the hosts
  std::string role;
  launch::TeeSpec tee;
  std::chrono::milliseconds stop_grace{};
  bool is_command = false;  // `program` follows "--", without a run file
  // CONFIG and overrides, or the arguments of a custom program.
  std::vector<std::string> rest;
  // --new-token: all other members are unset.
  std::optional<std::string> new_token;
  // --help: print `help`; all other members are unset.
  bool wants_help = false;
  std::string help;
};

// Options that are not given default to the environment variable PET_<NAME>, as in torchrun
// (PET_NNODES). Throws Config, with a one-line message, for invalid arguments.
LaunchArguments parse_launch_arguments(int argc, char** argv);

// The variables PET_<NAME> that are set, such as "PET_NNODES=2".
std::vector<std::string> options_in_environment();

// Whether this -n is only known on the host that starts the ranks.
bool is_resolved_on_host(const std::string& num_workers);

}  // namespace lockstep::cli
