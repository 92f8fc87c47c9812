#include "launch/rank_env.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>

#include "core/error.h"

namespace lockstep {
namespace {

int to_int(const std::string& text, const std::string& name) {
  int value = 0;
  const auto* end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, value);
  if (result.ec != std::errc{} || result.ptr != end || value < 0)
    throw config_error(
        fmt::format("environment variable {}={}: expected a number of at least 0", name, text));
  return value;
}

std::optional<int> read_int(const char* name) {
  const auto text = environment(name);
  if (!text) return std::nullopt;
  return to_int(*text, name);
}

int require_int(const char* name, const char* because) {
  const auto value = read_int(name);
  if (!value)
    throw config_error(
        fmt::format("environment variable {} is missing, but {} is set", name, because));
  return *value;
}

// Which variables a source uses, so that every check can name them.
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
constexpr Source kSlurm = {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_TASKS_PER_NODE"};

[[noreturn]] void contradict(const char* small, int value, const char* big, int limit,
                             const char* relation) {
  throw config_error(fmt::format("environment variables {}={} and {}={} contradict each other: {}",
                                 small, value, big, limit, relation));
}

void verify(const RankEnv& env, const Source& source) {
  constexpr auto kBelow = "the first must be smaller";
  if (env.rank >= env.world_size)
    contradict(source.rank, env.rank, source.world_size, env.world_size, kBelow);
  if (env.local_rank >= env.local_world_size)
    contradict(source.local_rank, env.local_rank, source.local_world_size, env.local_world_size,
               kBelow);
  if (env.local_world_size > env.world_size)
    contradict(source.local_world_size, env.local_world_size, source.world_size, env.world_size,
               "the first must not be larger");
  if (env.local_rank > env.rank)
    contradict(source.local_rank, env.local_rank, source.rank, env.rank,
               "the first must not be larger");
}

// Torchrun, OpenMPI and PMI differ in names only. A pod with one process is often told RANK and
// WORLD_SIZE alone.
RankEnv read_source(const Source& source) {
  RankEnv env;
  env.rank = require_int(source.rank, source.world_size);
  env.world_size = require_int(source.world_size, source.rank);
  if (read_int(source.local_rank) || read_int(source.local_world_size)) {
    env.local_rank = require_int(source.local_rank, source.local_world_size);
    env.local_world_size =
        env.world_size == 1 ? 1 : require_int(source.local_world_size, source.local_rank);
  }
  verify(env, source);
  env.node_rank = env.rank / env.local_world_size;
  return env;
}

// Slurm's list "2(x3),1": how many tasks each node has.
int tasks_on_node(const std::string& list, int node, const char* name) {
  size_t begin = 0;
  int first_node = 0;
  while (begin < list.size()) {
    const auto comma = std::min(list.find(',', begin), list.size());
    const auto item = list.substr(begin, comma - begin);
    const auto repeat = item.find("(x");
    const auto tasks = to_int(item.substr(0, repeat), name);
    const auto is_repeated = repeat != std::string::npos && item.back() == ')';
    first_node += is_repeated ? to_int(item.substr(repeat + 2, item.size() - repeat - 3), name) : 1;
    if (node < first_node) return tasks;
    begin = comma + 1;
  }
  throw config_error(
      fmt::format("environment variable {}={} has no entry for SLURM_NODEID={}", name, list, node));
}

int slurm_local_size(int node) {
  for (const char* name : {"SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"})
    if (const auto list = environment(name)) return tasks_on_node(*list, node, name);
  if (const auto count = read_int("SLURM_NTASKS_PER_NODE")) return *count;
  throw config_error(
      "environment variable SLURM_TASKS_PER_NODE is missing, but SLURM_PROCID is set");
}

std::optional<RankEnv> read_slurm() {
  if (!environment("SLURM_PROCID")) return std::nullopt;  // an interactive allocation
  RankEnv env;
  const auto step_tasks = read_int("SLURM_STEP_NUM_TASKS");
  env.world_size = step_tasks ? *step_tasks : require_int("SLURM_NTASKS", "SLURM_PROCID");
  if (env.world_size == 1) return std::nullopt;
  env.rank = require_int("SLURM_PROCID", "SLURM_NTASKS");
  env.local_rank = require_int("SLURM_LOCALID", "SLURM_PROCID");
  env.node_rank = require_int("SLURM_NODEID", "SLURM_PROCID");
  env.local_world_size = slurm_local_size(env.node_rank);
  verify(env, kSlurm);
  return env;
}

bool is_set(const char* name) { return environment(name).has_value(); }

// An MPI launcher inside a Slurm batch script inherits the script's own SLURM_PROCID=0, so it is
// asked first; srun with a PMI plugin sets PMI_RANK without the local rank, so then Slurm knows
// better.
RankEnv read_ranks() {
  if (is_set("RANK") || is_set("WORLD_SIZE")) {
    auto env = read_source(kTorchrun);
    env.node_rank = read_int("GROUP_RANK").value_or(env.node_rank);
    return env;
  }
  if (is_set("OMPI_COMM_WORLD_SIZE")) return read_source(kOpenMpi);
  if (is_set("PMI_SIZE") && is_set("MPI_LOCALRANKID")) return read_source(kPmi);
  if (auto env = read_slurm()) return *env;
  if (is_set("PMI_SIZE") && !is_set("SLURM_PROCID")) return read_source(kPmi);
  return {};
}

void read_master(RankEnv& env) {
  if (const auto address = environment("MASTER_ADDR"))
    env.master_addr = *address;
  else if (env.world_size > 1)
    throw config_error(
        fmt::format("environment variable MASTER_ADDR is missing: this is rank {} of {}, so it "
                    "must name the host of rank 0",
                    env.rank, env.world_size));
  const auto port = read_int("MASTER_PORT");
  if (!port && env.world_size > 1)
    throw config_error(
        fmt::format("environment variable MASTER_PORT is missing: this is rank {} of {}, so it "
                    "must be a free port of {}",
                    env.rank, env.world_size, env.master_addr));
  env.master_port = port.value_or(0);
  if (port && (*port < 1 || *port > 65535))
    throw config_error(
        fmt::format("environment variable MASTER_PORT={}: expected 1 to 65535", *port));
}

}  // namespace

RankEnv read_rank_env() {
  auto env = read_ranks();
  read_master(env);
  env.agent_serves_store = environment("TORCHELASTIC_USE_AGENT_STORE") == "True";
  env.restart_count = read_int("TORCHELASTIC_RESTART_COUNT").value_or(0);
  env.listen_fd = read_int("LOCKSTEP_MASTER_LISTEN_FD");
  env.run_id = environment("LOCKSTEP_RUN_ID");
  env.error_file = environment("TORCHELASTIC_ERROR_FILE");
  return env;
}

std::optional<int> requested_num_threads() {
  const auto text = environment("OMP_NUM_THREADS");
  if (!text) return std::nullopt;
  int count = 0;
  const auto* end = text->data() + text->size();
  const auto result = std::from_chars(text->data(), end, count);
  if (result.ec != std::errc{} || result.ptr != end || count < 1) return std::nullopt;
  return count;
}

std::optional<std::string> environment(const char* name) {
  const char* value = std::getenv(name);
  if (!value || !*value) return std::nullopt;
  return value;
}

}  // namespace lockstep
