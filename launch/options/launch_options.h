// Options of a launcher: the workers of its node, and the rendezvous with other nodes.
#pragma once

#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "launch/options/tee_spec.h"
#include "launch/protocol/rendezvous_options.h"

namespace lockstep::launch {

class WarmTemplate;

struct LaunchOptions {
  std::string program;  // a path, or a name that is searched for in PATH
  // Rank 0 gets the socket of MASTER_PORT, which no other process can take then. False: the program
  // binds the port, as under torchrun.
  bool passes_master_socket = true;
  std::vector<std::string> arguments;  // the same for every worker
  int num_workers = 1;                 // on this node; other nodes may have a different number

  // The workers' MASTER_ADDR and MASTER_PORT with one node. With several the rendezvous decides.
  std::string master_addr = "127.0.0.1";
  int master_port = 0;  // 0: a free one

  RendezvousOptions rendezvous;
  // How often the group may be restarted after a failure of any kind. Node 0's value applies.
  int max_restarts = 0;
  std::chrono::milliseconds restart_window{0}, restart_delay{1000};  // see RestartOptions
  std::chrono::milliseconds monitor_interval{100};  // minimum between status messages

  TeeSpec tee;
  // Time between SIGTERM and SIGKILL.
  std::chrono::milliseconds stop_grace = std::chrono::seconds(30);
  // Whether the other workers continue when one is killed, in a new group of ranks, and
  // how many more are started that wait to take its place.
  bool continues_on_loss = false;
  int num_spares = 0;
  // How often each worker that is killed then is started again, as a spare, in an attempt (within
  // restart_window), if it had taken part in a step.
  int rank_restarts = 0;
  // LOCKSTEP_RUN_ID of the workers; empty: not set. With several nodes, the coordinator's value
  // applies to all.
  std::string run_id;
  // Where the directory of the run is. With continues_on_loss and several nodes, which must share it, the
  // others continue also if the coordinator's node is lost; empty: they stop then.
  std::filesystem::path runs_dir;
  // Until a node that joins sees there what the others have written; file systems may cache for a while.
  std::chrono::milliseconds share_timeout = std::chrono::seconds(30);
  std::string role = "default";  // ROLE_NAME of the workers
  std::string host;              // this node's name in messages; empty: the host name
  int stdout_fd = STDOUT_FILENO, stderr_fd = STDERR_FILENO;  // the console
  WarmTemplate* warm = nullptr;  // from which workers are forked; null: each loads LibTorch
};

// Throws Config for numbers that are out of range.
void verify(const LaunchOptions& options);

}  // namespace lockstep::launch
