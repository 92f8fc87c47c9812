#include "lockstep/rank_env.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>

#include "core/number_text.h"
#include "launch/environment/environment_value.h"
#include "launch/environment/job_port.h"
#include "launch/environment/mpi_job.h"
#include "launch/environment/slurm_env.h"
#include "lockstep/error.h"

namespace lockstep {
namespace {

// The variables of a source, which error messages name.
struct Source {
  const char* rank;
  const char* world_size;
  const char* local_rank;
  const char* local_world_size;
};
constexpr Source kTorchrun = {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"};
constexpr Source kOpenMpi = {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                             "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"};
constexpr Source kPmi = {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"};
constexpr Source kSlurm = {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID",
                           "SLURM_STEP_TASKS_PER_NODE"};

void verify(const RankEnv& env, const Source& source) {
  constexpr auto kBelow = "the first must be smaller";
  if (env.rank >= env.world_size)
    launch::contradict(source.rank, env.rank, source.world_size, env.world_size, kBelow);
  if (env.local_rank >= env.local_world_size)
    launch::contradict(source.local_rank, env.local_rank, source.local_world_size,
                       env.local_world_size, kBelow);
  if (env.local_world_size > env.world_size)
    launch::contradict(source.local_world_size, env.local_world_size, source.world_size,
                       env.world_size, "the first must not be larger");
  if (env.local_rank > env.rank)
    launch::contradict(source.local_rank, env.local_rank, source.rank, env.rank,
                       "the first must not be larger");
}

// Torchrun, OpenMPI and PMI differ in names only. A pod with one process often has only RANK and
// WORLD_SIZE.
RankEnv read_source(const Source& source) {
  RankEnv env;
  env.rank = launch::require_int_variable(source.rank, source.world_size);
  env.world_size = launch::require_int_variable(source.world_size, source.rank);
  if (launch::read_int_variable(source.local_rank) ||
      launch::read_int_variable(source.local_world_size)) {
    env.local_rank = launch::require_int_variable(source.local_rank, source.local_world_size);
    env.local_world_size = env.world_size == 1 ? 1
                                               : launch::require_int_variable(
                                                     source.local_world_size, source.local_rank);
  }
  verify(env, source);
  env.node_rank = env.rank / env.local_world_size;
  return env;
}

bool is_set(const char* name) { return environment(name).has_value(); }

// The ranks that a launcher has set, and how to identify the job.
struct Found {
  RankEnv env;
  // Identical on all ranks and unique to the job; empty if the launcher provides no such key.
  std::string key;
  bool by_mpirun = false;
};

bool is_one_host(const RankEnv& env) { return env.local_world_size == env.world_size; }

Found read_openmpi() {
  Found found{.env = read_source(kOpenMpi), .key = {}, .by_mpirun = true};
  found.key = launch::openmpi_job().value_or("");
  return found;
}

Found read_pmi() {
  Found found{.env = read_source(kPmi), .key = {}, .by_mpirun = true};
  if (is_one_host(found.env)) found.key = launch::hydra_job();
  return found;
}

Found read_torchrun() {
  Found found{.env = read_source(kTorchrun), .key = {}};
  found.env.node_rank = launch::read_int_variable("GROUP_RANK").value_or(found.env.node_rank);
  return found;
}

// An MPI launcher inside a Slurm job inherits the variables of the batch script or of MPI's own
// daemons, so it is checked first. srun with a PMI plugin sets PMI_RANK without the local rank;
// Slurm's variables take precedence then.
Found read_ranks() {
  if (is_set("RANK") || is_set("WORLD_SIZE")) return read_torchrun();
  if (is_set("OMPI_COMM_WORLD_SIZE")) return read_openmpi();
  if (is_set("PMI_SIZE") && is_set("MPI_LOCALRANKID")) return read_pmi();
  if (auto env = launch::read_slurm_ranks()) {
    verify(*env, kSlurm);
    return {.env = *env, .key = env->job};
  }
  if (is_set("PMI_SIZE") && !is_set("SLURM_PROCID")) return read_pmi();
  return {};
}

std::string find_master_addr(const Found& found) {
  if (const auto address = environment("MASTER_ADDR")) return *address;
  if (is_one_host(found.env) || !found.env.job.empty()) return found.env.master_addr;
  const auto* how =
      found.by_mpirun
          ? " (mpirun -x MASTER_ADDR=HOST with OpenMPI, -genv MASTER_ADDR HOST with MPICH)"
          : "";
  throw config_error(
      fmt::format("environment variable MASTER_ADDR is missing: this is rank {} of {}, so it "
                  "must name the host of rank 0{}",
                  found.env.rank, found.env.world_size, how));
}

int find_master_port(const Found& found) {
  const auto port = launch::read_int_variable("MASTER_PORT");
  if (port && (*port < 1 || *port > 65535))
    throw config_error(
        fmt::format("environment variable MASTER_PORT={}: expected 1 to 65535", *port));
  if (port || found.env.world_size == 1) return port.value_or(0);
  if (!found.key.empty()) return launch::job_port(found.key);
  throw config_error(
      fmt::format("environment variable MASTER_PORT is missing: this is rank {} of {}, so it "
                  "must be a free port of {}",
                  found.env.rank, found.env.world_size, found.env.master_addr));
}

}  // namespace

RankEnv read_rank_env() {
  auto found = read_ranks();
  auto& env = found.env;
  env.master_addr = find_master_addr(found);
  env.master_port = find_master_port(found);
  env.agent_serves_store = environment("TORCHELASTIC_USE_AGENT_STORE") == "True";
  env.restart_count = launch::read_int_variable("TORCHELASTIC_RESTART_COUNT").value_or(0);
  env.store_prefix =
      fmt::format("{}{}attempt_{}", found.key, found.key.empty() ? "" : "/", env.restart_count);
  env.listen_fd = launch::read_int_variable("LOCKSTEP_MASTER_LISTEN_FD");
  env.group_fd = launch::read_int_variable("LOCKSTEP_GROUP_FD");
  env.loss_fd = launch::read_int_variable("LOCKSTEP_LOSS_FD");
  env.group_address = environment("LOCKSTEP_GROUP_ADDRESS").value_or("");
  env.is_spare = env.group_fd && environment("LOCKSTEP_SPARE") == "1";
  env.run_id = environment("LOCKSTEP_RUN_ID");
  if (environment("LOCKSTEP_PROGRESS_FD")) env.launcher = ::getppid();  // set by lockstep launch
  env.error_file = environment("TORCHELASTIC_ERROR_FILE");
  return env;
}

std::optional<int> requested_num_threads() {
  const auto text = environment("OMP_NUM_THREADS");
  const auto count = text ? parse_number<int>(*text) : std::nullopt;
  return count && *count >= 1 ? count : std::nullopt;
}

std::vector<std::string> environment_with(const std::map<std::string, std::string>& changes) {
  std::vector<std::string> entries;
  for (char** entry = environ; entry && *entry; ++entry) {
    const std::string text = *entry;
    if (!changes.contains(text.substr(0, text.find('=')))) entries.push_back(text);
  }
  for (const auto& [name, value] : changes) entries.push_back(fmt::format("{}={}", name, value));
  return entries;
}

void set_environment_default(const char* name, const char* value) {
  ::setenv(name, value, /*overwrite=*/0);
}

std::optional<std::string> environment(const char* name) {
  const char* value = std::getenv(name);
  if (!value || !*value) return std::nullopt;
  return value;
}

}  // namespace lockstep
