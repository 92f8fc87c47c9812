// The rank of this process, read from environment variables of its launcher: torchrun (also set by
// `lockstep launch`), Slurm, OpenMPI or PMI. If none are set, this is the only process.
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

  // Whether torchrun's agent serves the store at master_addr:master_port; rank 0 is then a client.
  bool agent_serves_store = false;
  int restart_count = 0;
  // Key prefix that separates this attempt from other attempts and jobs in the same store.
  std::string store_prefix = "attempt_0";
  // The scheduler's id of this job step ("slurm-1234-0"), empty without a scheduler, and whether
  // the scheduler restarted the job, so that its run resumes.
  std::string job;
  bool job_restarted = false;
  // A socket that already listens on master_port; `lockstep launch` passes it to rank 0.
  std::optional<int> listen_fd;
  // A connection to `lockstep launch --on-rank-loss continue`, which lets this process continue in a new
  // group of ranks when one is killed; a spare is not in the first group.
  std::optional<int> group_fd;
  std::optional<int> loss_fd;  // with several nodes: an eventfd, written when a rank is lost
  std::string group_address;   // with several nodes: at which the others reach this one
  bool is_spare = false;
  // The run id of this job (LOCKSTEP_RUN_ID); a restart resumes that run.
  std::optional<std::string> run_id;
  // Process id of the `lockstep launch` that started this process, or 0.
  int64_t launcher = 0;
  // The file in which this process reports its failure (TORCHELASTIC_ERROR_FILE).
  std::optional<std::string> error_file;
};

// Reads the environment. If MASTER_ADDR and MASTER_PORT are not set, derives them from Slurm's node
// list and job id, or from mpirun's job if all ranks are on one host. Throws Config, naming the
// variable, when a value is not a number, when variables contradict each other, or when there are
// several processes and the address of rank 0 is unknown.
RankEnv read_rank_env();

// OMP_NUM_THREADS, if it is a positive number.
std::optional<int> requested_num_threads();

// The environment of this process as "NAME=value" strings, with `changes` applied.
std::vector<std::string> environment_with(const std::map<std::string, std::string>& changes);

// The environment variable `name`, if set and not empty.
std::optional<std::string> environment(const char* name);

// Sets an environment variable of this process, unless it is set. Call it while no other thread
// reads the environment.
void set_environment_default(const char* name, const char* value);

}  // namespace lockstep
