// What srun tells the tasks of a job step through the environment. A batch script and an
// interactive allocation are no step: what runs there directly is one process.
#pragma once

#include <optional>
#include <string>

#include "lockstep/rank_env.h"

namespace lockstep::launch {

struct SlurmStep {
  std::string job;         // "slurm-1234-0": job and step; the same when the job is started again
  bool restarted = false;  // it was requeued: an earlier start of this job may have left a run
  int num_nodes = 1, node_rank = 0, num_tasks = 1;
  // The host of node 0, as Slurm's node list says.
  std::string first_host;
};

// nullopt outside of a step. Throws Config for what contradicts itself or cannot be read.
std::optional<SlurmStep> read_slurm_step();

// This task as a rank of its step; nullopt outside of a step. Throws as above.
std::optional<RankEnv> read_slurm_ranks();

}  // namespace lockstep::launch
