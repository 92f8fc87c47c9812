#include "launch/environment/node_env.h"

#include <catch2/catch.hpp>

#include "lockstep/error.h"
#include "tests/launch/environment_guard.h"

namespace lockstep::launch {
namespace {

std::string config_error_of_node() {
  try {
    read_node_env();
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::Config);
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("node environment: without a scheduler there is none") {
  EnvironmentGuard guard;
  CHECK_FALSE(read_node_env());
}

TEST_CASE("node environment: a launcher on each node of a Slurm step") {
  EnvironmentGuard guard({{"SLURM_JOB_ID", "17"},
                          {"SLURM_STEP_ID", "3"},
                          {"SLURM_STEP_NODELIST", "m02,n[1-3]"},
                          {"SLURM_STEP_NUM_NODES", "4"},
                          {"SLURM_STEP_NUM_TASKS", "4"},
                          {"SLURM_PROCID", "2"},
                          {"SLURM_NODEID", "2"}});
  const auto node = read_node_env();
  REQUIRE(node);
  CHECK(node->num_nodes == 4);
  CHECK(node->node_rank == 2);
  CHECK(node->master_addr == "m02");
  CHECK(node->master_port >= 15000);
  CHECK(node->job == "slurm-17-3");
  CHECK_FALSE(node->job_restarted);
  guard.set("SLURM_NODEID", "0");
  CHECK(read_node_env()->master_port == node->master_port);
  guard.set("MASTER_ADDR", "m02-ib");
  guard.set("MASTER_PORT", "4000");
  CHECK(read_node_env()->master_addr == "m02-ib");
  CHECK(read_node_env()->master_port == 4000);
}

TEST_CASE("node environment: srun with several tasks on a node is rejected with a suggestion") {
  EnvironmentGuard guard({{"SLURM_JOB_ID", "17"},
                          {"SLURM_STEP_ID", "0"},
                          {"SLURM_STEP_NODELIST", "n[1-2]"},
                          {"SLURM_STEP_NUM_NODES", "2"},
                          {"SLURM_STEP_NUM_TASKS", "4"},
                          {"SLURM_PROCID", "1"},
                          {"SLURM_NODEID", "0"}});
  CHECK(config_error_of_node() ==
        "srun started 4 tasks on 2 nodes, but 'lockstep launch' starts the ranks of a node itself: "
        "give srun --ntasks-per-node=1, or start lockstep-trainer without it (--nnodes 1 for "
        "independent launches)");
}

TEST_CASE("node environment: a Slurm batch script is a single node") {
  EnvironmentGuard guard({{"SLURM_JOB_ID", "17"},
                          {"SLURM_NNODES", "2"},
                          {"SLURM_NTASKS", "2"},
                          {"SLURM_PROCID", "0"},
                          {"SLURM_NODEID", "0"}});
  CHECK_FALSE(read_node_env());
}

TEST_CASE("node environment: a pod of an indexed Job") {
  EnvironmentGuard guard(
      {{"JOB_COMPLETION_INDEX", "1"}, {"NNODES", "2"}, {"MASTER_ADDR", "mnist-0.mnist"}});
  const auto node = read_node_env();
  REQUIRE(node);
  CHECK(node->num_nodes == 2);
  CHECK(node->node_rank == 1);
  CHECK(node->master_addr == "mnist-0.mnist");
  CHECK(node->master_port == 0);
  CHECK(node->job.empty());
  guard.set("MASTER_PORT", "29400");
  CHECK(read_node_env()->master_port == 29400);
}

TEST_CASE("node environment: an indexed Job without NNODES is independent launches") {
  EnvironmentGuard guard({{"JOB_COMPLETION_INDEX", "1"}});
  CHECK_FALSE(read_node_env());
}

TEST_CASE("node environment: missing and invalid variables of a manifest are named") {
  EnvironmentGuard guard({{"JOB_COMPLETION_INDEX", "1"}, {"NNODES", "2"}});
  CHECK(config_error_of_node() ==
        "environment variable MASTER_ADDR is missing: this is node 1 of 2, so it must name the pod "
        "with index 0, as POD-0.SERVICE of a headless service");
  guard.set("NNODES", "1");
  CHECK(config_error_of_node() ==
        "environment variables JOB_COMPLETION_INDEX=1 and NNODES=1 contradict each other: the "
        "first must be smaller");
  guard.set("NNODES", "two");
  CHECK(config_error_of_node() ==
        "environment variable NNODES=two: expected a number of at least 0");
  guard.set("NNODES", "2");
  guard.set("MASTER_ADDR", "mnist-0.mnist");
  guard.set("MASTER_PORT", "70000");
  CHECK(config_error_of_node() == "environment variable MASTER_PORT=70000: expected 1 to 65535");
}

}  // namespace lockstep::launch
