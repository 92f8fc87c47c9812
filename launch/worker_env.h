// The environment of a worker: what its launcher has, and torchrun's variables, which
// launch/rank_env.h reads again.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "launch/launch_options.h"

namespace lockstep {

// One node's part of one attempt.
struct NodePlace {
  int node_rank = 0, num_nodes = 1;
  int first_rank = 0;  // of the node's workers
  int world_size = 1;
  int restart_count = 0, max_restarts = 0;
  std::string master_addr = "127.0.0.1";
  int master_port = 0;
  std::string run_id;
};

struct WorkerPlace {
  NodePlace node;
  int local_rank = 0;
  std::optional<int> listen_fd;  // rank 0: the socket of launch/master_socket.h
  int progress_fd = -1;          // the memory of core/progress_page.h; -1: none
  std::filesystem::path error_file;
};

// As "NAME=value". Variables of an outer launcher that would contradict are replaced or left out,
// and so is the secret of the rendezvous. OMP_NUM_THREADS, unless it is set already, becomes this
// worker's share of the cores this process may use.
std::vector<std::string> worker_environment(const LaunchOptions& options, const WorkerPlace& place);

// How many cores this process may use; at least 1.
int num_usable_cores();

// How many of NVIDIA's GPUs it may use, as CUDA_VISIBLE_DEVICES says; 0 without their driver.
int num_usable_gpus();

}  // namespace lockstep
