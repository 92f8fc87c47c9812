// The environment of a worker: what its launcher has, and torchrun's variables, which
// lockstep/rank_env.h reads again.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "launch/environment/node_place.h"
#include "launch/options/launch_options.h"

namespace lockstep::launch {

struct WorkerPlace {
  NodePlace node;
  int local_rank = 0;
  std::optional<int> listen_fd;  // rank 0: the socket of launch/protocol/master_socket.h
  int progress_fd = -1;          // the memory of core/system/progress_page.h; -1: none
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

}  // namespace lockstep::launch
