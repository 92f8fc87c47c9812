// The environment that srun sets for the tasks of a job step. A batch script and an interactive
// allocation are not steps: a program that runs there directly is a single process.
#pragma once

#include <optional>
#include <string>

#include "lockstep/rank_env.h"

namespace lockstep::launch {

struct SlurmStep {
  std::string job;         // "slurm-1234-0": job and step; the same after a requeue
  bool restarted = false;  // it was requeued: an earlier start may have created a run
  int num_nodes = 1, node_rank = 0, num_tasks = 1;
  // The host of node 0, from Slurm's node list.
  std::string first_host;
};

// nullopt outside a step. Throws Config if the variables contradict each other or are invalid.
std::optional<SlurmStep> read_slurm_step();

// This task as a rank of its step; nullopt outside a step. Throws like read_slurm_step().
std::optional<RankEnv> read_slurm_ranks();

}  // namespace lockstep::launch
