#include "launch/environment/slurm_env.h"

#include <fmt/format.h>

#include <algorithm>

#include "launch/environment/environment_value.h"
#include "launch/environment/node_list.h"
#include "lockstep/error.h"

namespace lockstep::launch {
namespace {

// Slurm reserves step ids from here on for batch scripts, interactive steps and prologues.
constexpr uint32_t kFirstReservedStep = 0xfffffff0;

std::optional<std::string> step_id() {
  const auto id =
      environment("SLURM_STEP_ID") ? environment("SLURM_STEP_ID") : environment("SLURM_STEPID");
  if (!id || !environment("SLURM_PROCID") || !environment("SLURM_JOB_ID")) return std::nullopt;
  const bool reserved = id->size() == 10 && *id >= std::to_string(kFirstReservedStep);
  if (reserved) return std::nullopt;
  number_in_variable(*id, "SLURM_STEP_ID");
  return id;
}

// `list`: the number of tasks per node, in Slurm's notation "2(x3),1".
int tasks_on_node(const std::string& list, int node, const char* name) {
  size_t begin = 0;
  int first_node = 0;
  while (begin < list.size()) {
    const auto comma = std::min(list.find(',', begin), list.size());
    const auto item = list.substr(begin, comma - begin);
    const auto repeat = item.find("(x");
    const auto tasks = number_in_variable(item.substr(0, repeat), name);
    const auto is_repeated = repeat != std::string::npos && item.back() == ')';
    first_node += is_repeated
                      ? number_in_variable(item.substr(repeat + 2, item.size() - repeat - 3), name)
                      : 1;
    if (node < first_node) return tasks;
    begin = comma + 1;
  }
  throw config_error(
      fmt::format("environment variable {}={} has no entry for SLURM_NODEID={}", name, list, node));
}

int local_size(int node) {
  for (const char* name : {"SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"})
    if (const auto list = environment(name)) return tasks_on_node(*list, node, name);
  if (const auto count = read_int_variable("SLURM_NTASKS_PER_NODE")) return *count;
  throw config_error(
      "environment variable SLURM_TASKS_PER_NODE is missing, but SLURM_PROCID is set");
}

std::string read_first_host() {
  for (const char* name : {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"})
    if (const auto list = environment(name)) {
      if (const auto host = first_host(*list)) return *host;
      throw config_error(
          fmt::format("environment variable {}={} is not a Slurm host list", name, *list));
    }
  throw config_error(
      "environment variable SLURM_STEP_NODELIST is missing, but SLURM_STEP_ID is set");
}

int require_either(const char* first, const char* second) {
  const auto value = read_int_variable(first);
  return value ? *value : require_int_variable(second, "SLURM_STEP_ID");
}

}  // namespace

std::optional<SlurmStep> read_slurm_step() {
  const auto step_number = step_id();
  if (!step_number) return std::nullopt;
  SlurmStep step;
  step.job = fmt::format("slurm-{}-{}", require_int_variable("SLURM_JOB_ID", "SLURM_STEP_ID"),
                         *step_number);
  step.restarted = read_int_variable("SLURM_RESTART_COUNT").value_or(0) > 0;
  step.num_nodes = require_either("SLURM_STEP_NUM_NODES", "SLURM_NNODES");
  step.num_tasks = require_either("SLURM_STEP_NUM_TASKS", "SLURM_NTASKS");
  step.node_rank = require_int_variable("SLURM_NODEID", "SLURM_STEP_ID");
  if (step.node_rank >= step.num_nodes)
    contradict("SLURM_NODEID", step.node_rank, "SLURM_STEP_NUM_NODES", step.num_nodes,
               "the first must be smaller");
  step.first_host = read_first_host();
  return step;
}

std::optional<RankEnv> read_slurm_ranks() {
  const auto step = read_slurm_step();
  if (!step) return std::nullopt;
  RankEnv env;
  env.world_size = step->num_tasks;
  env.rank = require_int_variable("SLURM_PROCID", "SLURM_STEP_ID");
  env.local_rank = require_int_variable("SLURM_LOCALID", "SLURM_PROCID");
  env.node_rank = step->node_rank;
  env.local_world_size = step->num_tasks == 1 ? 1 : local_size(env.node_rank);
  env.job = step->job;
  env.job_restarted = step->restarted;
  env.master_addr = step->num_nodes == 1 ? "127.0.0.1" : step->first_host;
  return env;
}

}  // namespace lockstep::launch
