// What a launcher is asked to do: the workers of one node.
#pragma once

#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "launch/tee_spec.h"

namespace lockstep {

struct LaunchOptions {
  std::string program;                 // a path, or a name that is looked up in PATH
  std::vector<std::string> arguments;  // the same for every worker
  int num_workers = 1;                 // on this node; every node must have as many

  int num_nodes = 1, node_rank = 0;
  std::string master_addr = "127.0.0.1";  // the host of node 0
  // 0: a free port on one node, 29500 (torchrun's) on several, where all must know it beforehand.
  int master_port = 0;

  // Each start gets the next free <log_dir>/attempt_<n>, with <local
  // rank>/{stdout.log,stderr.log,error.json}.
  std::filesystem::path log_dir;
  TeeSpec tee;
  // From SIGTERM to SIGKILL.
  std::chrono::milliseconds grace = std::chrono::seconds(30);
  std::string run_id;  // LOCKSTEP_RUN_ID of the workers; empty: they have none
  int stdout_fd = STDOUT_FILENO, stderr_fd = STDERR_FILENO;  // the console
};

// Throws Config for numbers that are out of range.
void verify(const LaunchOptions& options);

}  // namespace lockstep
