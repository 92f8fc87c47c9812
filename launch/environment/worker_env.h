// The environment of a worker: that of its launcher, plus torchrun's variables, which
// lockstep/rank_env.h parses.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "launch/environment/node_place.h"

namespace lockstep::launch {

struct WorkerPlace {
  NodePlace node;
  int local_rank = 0, num_workers = 1;  // on this node
  std::string role = "default";
  std::optional<int> listen_fd;  // rank 0: the socket of launch/protocol/master_socket.h
  std::optional<int> group_fd;   // see launch/workers/group_member.h
  std::optional<int> loss_fd;    // the same, with several nodes
  bool is_spare = false;         // it waits for a place in a later group
  int progress_fd = -1;          // the memory of core/system/progress_page.h; -1: none
  std::filesystem::path error_file;
};

// As "NAME=value". Conflicting variables of an outer launcher, and the secret of the rendezvous,
// are replaced or removed. OMP_NUM_THREADS, unless set already, is this worker's share of the cores
// that this process may use.
std::vector<std::string> worker_environment(const WorkerPlace& place);

// A launcher that has a template from the start (launch/warm/warm_template.h): "PID:FD".
inline constexpr const char* kTemplateVariable = "LOCKSTEP_WORKER_TEMPLATE";
// Of a template: its value is overwritten in its workers.
inline constexpr const char* kTemplateSpace = "LOCKSTEP_TEMPLATE_SPACE";

// The environment of a template of warm starts: what workers of launches with this environment and number
// of workers have in common. Libraries read it when they are loaded.
std::vector<std::string> template_environment(int num_workers);
// Whether a worker's `environment` is that of this process, a template, but for what differs between
// workers.
bool has_template_environment(const std::vector<std::string>& environment);
// Those variables of a worker's `environment` that differ between workers.
std::vector<std::string> entries_of_place(const std::vector<std::string>& environment);
// Before threads are started.
void replace_environment(const std::vector<std::string>& environment);

// In a template: the memory of the variable kTemplateSpace, "NAME=VALUE". Empty: there is none.
std::span<char> template_space();

// How many cores this process may use, by its CPU affinity and the CPU limit of its control group
// (rounded down); at least 1.
int num_usable_cores();

// The NVIDIA GPUs that it may use, as CUDA_VISIBLE_DEVICES names them; none without the driver.
std::vector<std::string> usable_gpus();
int num_usable_gpus();

// CUDA_VISIBLE_DEVICES of the job number `job` on a host with these GPUs, for `num_workers` workers. Jobs
// with successive numbers have different GPUs, until there are none left.
std::string gpus_of_job(const std::vector<std::string>& gpus, int job, int num_workers);

}  // namespace lockstep::launch
