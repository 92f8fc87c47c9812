// Who this process is, as its launcher told it through the environment: torchrun's variables (also
// set by `lockstep launch`), Slurm's, OpenMPI's or PMI's; with none of them it is one process. The
// only file that reads the environment.
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

  // torchrun's agent already serves the store at master_addr:master_port: rank 0 is a client like
  // the others.
  bool agent_serves_store = false;
  int restart_count = 0;
  // Keeps what this job and this attempt write into a store apart from all others that find it.
  std::string store_prefix = "attempt_0";
  // The step of the scheduler that this is ("slurm-1234-0"), and whether the scheduler started it
  // again, so that its run goes on; empty where none says so.
  std::string job;
  bool job_restarted = false;
  // A socket that listens on master_port already, handed over to rank 0 by `lockstep launch`.
  std::optional<int> listen_fd;
  // The run this job is (LOCKSTEP_RUN_ID), so that a restart continues it.
  std::optional<std::string> run_id;
  // Process id of the `lockstep launch` that started this process, which sees how its ranks end; 0
  // where there is none.
  int64_t launcher = 0;
  // Where to write why this process failed (TORCHELASTIC_ERROR_FILE; see
  // launch/report/error_file.h).
  std::optional<std::string> error_file;
};

// MASTER_ADDR and MASTER_PORT, where they are not set, follow from Slurm's node list and job id,
// and from mpirun's job when all ranks are on one host. Throws Config when the variables contradict
// each other or are no numbers (naming the variable), or when several processes are meant but where
// rank 0 listens cannot be told.
RankEnv read_rank_env();

// OMP_NUM_THREADS, when it is a positive number.
std::optional<int> requested_num_threads();

// This process's environment as "NAME=value", with `changes` set.
std::vector<std::string> environment_with(const std::map<std::string, std::string>& changes);

// The environment variable `name`, when set and not empty: for launch and cli, which must not read
// it themselves.
std::optional<std::string> environment(const char* name);

}  // namespace lockstep
