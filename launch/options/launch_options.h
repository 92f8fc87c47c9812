// What a launcher is asked to do: the workers of one node, and how it meets the other nodes.
#pragma once

#include <unistd.h>

#include <chrono>
#include <string>
#include <vector>

#include "launch/options/tee_spec.h"
#include "launch/protocol/rendezvous_options.h"

namespace lockstep::launch {

struct LaunchOptions {
  std::string program;                 // a path, or a name that is looked up in PATH
  std::vector<std::string> arguments;  // the same for every worker
  int num_workers = 1;                 // on this node; other nodes may have other numbers

  // With one node: what the workers are told. With several the rendezvous decides.
  std::string master_addr = "127.0.0.1";
  int master_port = 0;  // 0: a free one

  RendezvousOptions rendezvous;
  // How often the group may be started again after a failure, whatever failed. Node 0's counts.
  int max_restarts = 0;
  std::chrono::milliseconds restart_window{0}, restart_delay{1000};  // see RestartOptions
  std::chrono::milliseconds monitor_interval{100};  // how often a status is sent at most

  TeeSpec tee;
  // From SIGTERM to SIGKILL.
  std::chrono::milliseconds stop_grace = std::chrono::seconds(30);
  // LOCKSTEP_RUN_ID of the workers; empty: they have none. With several nodes all get that of the
  // node that serves the rendezvous.
  std::string run_id;
  std::string role = "default";  // ROLE_NAME of the workers
  std::string host;              // this node's name in messages; empty: the host's own
  int stdout_fd = STDOUT_FILENO, stderr_fd = STDERR_FILENO;  // the console
};

// Throws Config for numbers that are out of range.
void verify(const LaunchOptions& options);

}  // namespace lockstep::launch
