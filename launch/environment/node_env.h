// The node of a launcher that a scheduler started, one per node: Slurm (srun) or an indexed Job of
// Kubernetes. With it, `lockstep launch` needs no flags for several nodes.
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

// Slurm: a step of several nodes with one task each. Kubernetes sets JOB_COMPLETION_INDEX; the
// manifest sets NNODES and MASTER_ADDR (optionally MASTER_PORT). In an indexed Job without NNODES
// each pod is an independent launch. MASTER_ADDR and MASTER_PORT take precedence over Slurm's.
// nullopt if neither started this process. Throws Config if a variable is missing, not a number or
// contradictory, and if srun started several tasks on a node.
std::optional<NodeEnv> read_node_env();

}  // namespace lockstep::launch
