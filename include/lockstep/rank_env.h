// The rank of this process, as its launcher set it in the environment: the variables of torchrun
// (which `lockstep launch` sets too), Slurm, OpenMPI or PMI. Without any of them it is the only
// process.
//
// Example:
//   bool is_main() { return lockstep::read_rank_env().rank == 0; }
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

struct RankEnv {
  int rank = 0, local_rank = 0, node_rank = 0;
  int world_size = 1, local_world_size = 1;
  std::string master_addr = "127.0.0.1";
  int master_port = 0;  // 0 only when world_size is 1

  // Whether torchrun's agent serves the store at master_addr:master_port; rank 0 is a client then.
  bool agent_serves_store = false;
  int restart_count = 0;
  // Separates this attempt of this job from others in the same store.
  std::string store_prefix = "attempt_0";
  // The scheduler's name of this job step ("slurm-1234-0"), empty without a scheduler; and whether
  // the scheduler restarted it, so that its run continues.
  std::string job;
  bool job_restarted = false;
  // A socket that listens on master_port already; `lockstep launch` passes it to rank 0.
  std::optional<int> listen_fd;
  // The run of this job (LOCKSTEP_RUN_ID), which a restart continues.
  std::optional<std::string> run_id;
  // Process id of the `lockstep launch` that started this process, or 0.
  int64_t launcher = 0;
  // Where to write why this process failed (TORCHELASTIC_ERROR_FILE).
  std::optional<std::string> error_file;
};

// Reads them. If not set, MASTER_ADDR and MASTER_PORT are derived from Slurm's node list and job
// id, or from mpirun's job when all ranks are on one host. Throws Config, with the variable, when
// one is not a number, when they contradict each other, or when the address of rank 0 of several
// processes is not known.
RankEnv read_rank_env();

// OMP_NUM_THREADS, when it is a positive number.
std::optional<int> requested_num_threads();

// This process's environment as "NAME=value", with `changes` set.
std::vector<std::string> environment_with(const std::map<std::string, std::string>& changes);

// The environment variable `name`, when set and not empty.
std::optional<std::string> environment(const char* name);

}  // namespace lockstep
