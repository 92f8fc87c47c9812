#include "launch/environment/node_env.h"

#include <fmt/format.h>

#include "launch/environment/environment_value.h"
#include "launch/environment/job_port.h"
#include "launch/environment/slurm_env.h"
#include "lockstep/error.h"
#include "lockstep/rank_env.h"

namespace lockstep::launch {
namespace {

void require_one_task_per_node(const SlurmStep& step) {
  if (step.num_tasks == step.num_nodes) return;
  throw config_error(fmt::format(
      "srun started {} tasks on {} {}, but 'lockstep launch' starts the ranks of a node "
      "itself: give srun --ntasks-per-node=1, or start lockstep-trainer without it "
      "(--nnodes 1 for independent launches)",
      step.num_tasks, step.num_nodes, step.num_nodes == 1 ? "node" : "nodes"));
}

std::optional<int> read_master_port() {
  const auto port = read_int_variable("MASTER_PORT");
  if (port && (*port < 1 || *port > 65535))
    throw config_error(
        fmt::format("environment variable MASTER_PORT={}: expected 1 to 65535", *port));
  return port;
}

std::optional<NodeEnv> read_slurm() {
  const auto step = read_slurm_step();
  if (!step) return std::nullopt;
  require_one_task_per_node(*step);
  NodeEnv node{.num_nodes = step->num_nodes,
               .node_rank = step->node_rank,
               .master_addr = environment("MASTER_ADDR").value_or(step->first_host),
               .job = step->job,
               .job_restarted = step->restarted};
  node.master_port = read_master_port().value_or(job_port(step->job));
  return node;
}

std::optional<NodeEnv> read_kubernetes() {
  const auto index = read_int_variable("JOB_COMPLETION_INDEX");
  const auto num_nodes = read_int_variable("NNODES");
  if (!index || !num_nodes) return std::nullopt;
  if (*index >= *num_nodes)
    contradict("JOB_COMPLETION_INDEX", *index, "NNODES", *num_nodes, "the first must be smaller");
  NodeEnv node{.num_nodes = *num_nodes, .node_rank = *index};
  const auto address = environment("MASTER_ADDR");
  if (!address && *num_nodes > 1)
    throw config_error(
        fmt::format("environment variable MASTER_ADDR is missing: this is node {} of {}, so it "
                    "must name the pod with index 0, as POD-0.SERVICE of a headless service",
                    *index, *num_nodes));
  node.master_addr = address.value_or("127.0.0.1");
  node.master_port = read_master_port().value_or(0);
  return node;
}

}  // namespace

std::optional<NodeEnv> read_node_env() {
  if (auto node = read_slurm()) return node;
  return read_kubernetes();
}

}  // namespace lockstep::launch
