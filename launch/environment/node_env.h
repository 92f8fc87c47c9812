// Which node of a job a launcher is, as the scheduler that started one launcher per node told it:
// Slurm (srun), or an indexed Job of Kubernetes. With it `lockstep launch` needs no flags for
// several nodes.
#pragma once

#include <optional>
#include <string>

namespace lockstep::launch {

struct NodeEnv {
  int num_nodes = 1, node_rank = 0;
  std::string master_addr;  // the host of node 0
  int master_port = 0;      // 0: the launcher's default
  std::string job;          // "slurm-1234-0", the same on every node; empty under Kubernetes
  bool job_restarted = false;
};

// Slurm: a step of several nodes with one task each. Kubernetes: JOB_COMPLETION_INDEX is set by it,
// NNODES and MASTER_ADDR (and MASTER_PORT, if it is to be another) by the manifest; an indexed Job
// without NNODES is as many independent launches. MASTER_ADDR and MASTER_PORT win over Slurm's.
// nullopt where neither started this process. Throws Config when something is missing, no number,
// or contradictory, and for srun with several tasks on a node.
std::optional<NodeEnv> read_node_env();

}  // namespace lockstep::launch
