#include "lockstep/rank_env.h"

#include <catch2/catch.hpp>

#include "lockstep/error.h"
#include "tests/launch/environment_guard.h"

namespace lockstep::launch {
namespace {

std::string config_error_of_environment() {
  try {
    read_rank_env();
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::Config);
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("rank environment: without a launcher it is one process") {
  EnvironmentGuard guard;
  const auto env = read_rank_env();
  CHECK(env.rank == 0);
  CHECK(env.world_size == 1);
  CHECK(env.local_world_size == 1);
  CHECK(env.master_addr == "127.0.0.1");
  CHECK(env.master_port == 0);
  CHECK_FALSE(env.agent_serves_store);
  CHECK_FALSE(env.listen_fd);
  CHECK_FALSE(env.run_id);
  CHECK_FALSE(env.error_file);
}

TEST_CASE("rank environment: torchrun's variables are read") {
  EnvironmentGuard guard({{"RANK", "5"},
                          {"LOCAL_RANK", "1"},
                          {"WORLD_SIZE", "8"},
                          {"LOCAL_WORLD_SIZE", "4"},
                          {"GROUP_RANK", "1"},
                          {"MASTER_ADDR", "10.0.0.1"},
                          {"MASTER_PORT", "29500"},
                          {"TORCHELASTIC_RESTART_COUNT", "2"},
                          {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                          {"TORCHELASTIC_ERROR_FILE", "/tmp/error.json"},
                          {"LOCKSTEP_RUN_ID", "mnist-1"},
                          {"LOCKSTEP_MASTER_LISTEN_FD", "7"}});
  const auto env = read_rank_env();
  CHECK(env.rank == 5);
  CHECK(env.local_rank == 1);
  CHECK(env.node_rank == 1);
  CHECK(env.world_size == 8);
  CHECK(env.local_world_size == 4);
  CHECK(env.master_addr == "10.0.0.1");
  CHECK(env.master_port == 29500);
  CHECK(env.agent_serves_store);
  CHECK(env.restart_count == 2);
  CHECK(env.listen_fd == 7);
  CHECK(env.run_id == "mnist-1");
  CHECK(env.error_file == "/tmp/error.json");
}

TEST_CASE("rank environment: RANK and WORLD_SIZE alone mean one process on each host") {
  EnvironmentGuard guard(
      {{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "head"}, {"MASTER_PORT", "1234"}});
  const auto env = read_rank_env();
  CHECK(env.local_rank == 0);
  CHECK(env.local_world_size == 1);
  CHECK(env.node_rank == 1);
}

TEST_CASE("rank environment: torchrun's agent need not serve the store") {
  EnvironmentGuard guard({{"TORCHELASTIC_USE_AGENT_STORE", "False"}});
  CHECK_FALSE(read_rank_env().agent_serves_store);
}

TEST_CASE("rank environment: Slurm's variables are read, also with uneven nodes") {
  EnvironmentGuard guard({{"SLURM_JOB_ID", "17"},
                          {"SLURM_STEP_ID", "2"},
                          {"SLURM_STEP_NODELIST", "n[07-10]"},
                          {"SLURM_PROCID", "6"},
                          {"SLURM_LOCALID", "0"},
                          {"SLURM_NTASKS", "7"},
                          {"SLURM_TASKS_PER_NODE", "2(x3),1"},
                          {"SLURM_NNODES", "4"},
                          {"SLURM_NODEID", "3"}});
  const auto env = read_rank_env();
  CHECK(env.master_addr == "n07");
  CHECK(env.job == "slurm-17-2");
  CHECK(env.store_prefix == "slurm-17-2/attempt_0");
  CHECK_FALSE(env.job_restarted);
  CHECK(env.rank == 6);
  CHECK(env.local_rank == 0);
  CHECK(env.node_rank == 3);
  CHECK(env.world_size == 7);
  CHECK(env.local_world_size == 1);
  guard.set("SLURM_NODEID", "1");
  guard.set("SLURM_PROCID", "3");
  guard.set("SLURM_LOCALID", "1");
  CHECK(read_rank_env().local_world_size == 2);
  guard.set("SLURM_TASKS_PER_NODE", "7");
  CHECK(config_error_of_environment() ==
        "environment variable SLURM_TASKS_PER_NODE=7 has no entry for SLURM_NODEID=1");
  guard.set("SLURM_NODEID", "4");
  CHECK(config_error_of_environment() ==
        "environment variables SLURM_NODEID=4 and SLURM_STEP_NUM_NODES=4 contradict each other: "
        "the first must be smaller");
}

TEST_CASE("rank environment: all tasks of a Slurm step derive one port, other steps another") {
  EnvironmentGuard guard({{"SLURM_JOB_ID", "17"},
                          {"SLURM_STEP_ID", "0"},
                          {"SLURM_STEP_NODELIST", "n[1-2]"},
                          {"SLURM_STEP_NUM_NODES", "2"},
                          {"SLURM_STEP_NUM_TASKS", "2"},
                          {"SLURM_STEP_TASKS_PER_NODE", "1(x2)"},
                          {"SLURM_PROCID", "0"},
                          {"SLURM_LOCALID", "0"},
                          {"SLURM_NODEID", "0"}});
  const auto port = read_rank_env().master_port;
  CHECK(port >= 15000);
  CHECK(port < 30000);
  guard.set("SLURM_PROCID", "1");
  guard.set("SLURM_NODEID", "1");
  CHECK(read_rank_env().master_port == port);
  guard.set("SLURM_STEP_ID", "1");
  CHECK(read_rank_env().master_port != port);
  guard.set("MASTER_PORT", "29400");
  guard.set("MASTER_ADDR", "10.0.0.7");
  CHECK(read_rank_env().master_port == 29400);
  CHECK(read_rank_env().master_addr == "10.0.0.7");
  guard.set("SLURM_RESTART_COUNT", "1");
  CHECK(read_rank_env().job_restarted);
  guard.set("SLURM_STEP_NODELIST", "n[1-");
  CHECK(config_error_of_environment() ==
        "environment variable SLURM_STEP_NODELIST=n[1- is not a Slurm host list");
}

TEST_CASE("rank environment: Slurm's tasks per node are used when there is no list") {
  EnvironmentGuard guard({{"SLURM_JOB_ID", "17"},
                          {"SLURM_STEP_ID", "0"},
                          {"SLURM_STEP_NODELIST", "n[1-2]"},
                          {"SLURM_PROCID", "3"},
                          {"SLURM_LOCALID", "1"},
                          {"SLURM_NTASKS", "4"},
                          {"SLURM_NTASKS_PER_NODE", "2"},
                          {"SLURM_NNODES", "2"},
                          {"SLURM_NODEID", "1"}});
  CHECK(read_rank_env().local_world_size == 2);
}

TEST_CASE("rank environment: the job step takes precedence over a larger job") {
  EnvironmentGuard guard({{"SLURM_JOB_ID", "17"},
                          {"SLURM_STEP_ID", "1"},
                          {"SLURM_STEP_NODELIST", "n2"},
                          {"SLURM_STEP_NUM_NODES", "1"},
                          {"SLURM_NNODES", "2"},
                          {"SLURM_NODEID", "0"},
                          {"SLURM_LOCALID", "0"},
                          {"SLURM_PROCID", "0"},
                          {"SLURM_NTASKS", "8"},
                          {"SLURM_STEP_NUM_TASKS", "1"}});
  const auto env = read_rank_env();
  CHECK(env.world_size == 1);
  CHECK(env.job == "slurm-17-1");
}

TEST_CASE("rank environment: a Slurm allocation, its batch script and its shell are one process") {
  EnvironmentGuard guard({{"SLURM_NTASKS", "4"}, {"SLURM_JOB_ID", "17"}});
  CHECK(read_rank_env().world_size == 1);
  guard.set("SLURM_PROCID", "0");  // as sbatch sets it
  guard.set("SLURM_NODEID", "0");
  CHECK(read_rank_env().world_size == 1);
  guard.set("SLURM_STEP_ID", "4294967290");  // LaunchParameters=use_interactive_step
  const auto env = read_rank_env();
  CHECK(env.world_size == 1);
  CHECK(env.job.empty());
}

TEST_CASE("rank environment: OpenMPI's variables take precedence over those of the batch script") {
  EnvironmentGuard guard({{"SLURM_PROCID", "0"},
                          {"SLURM_NTASKS", "4"},
                          {"OMPI_COMM_WORLD_RANK", "3"},
                          {"OMPI_COMM_WORLD_SIZE", "4"},
                          {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                          {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                          {"MASTER_ADDR", "node0"},
                          {"MASTER_PORT", "29400"}});
  const auto env = read_rank_env();
  CHECK(env.rank == 3);
  CHECK(env.local_rank == 1);
  CHECK(env.node_rank == 1);
  CHECK(env.local_world_size == 2);
}

TEST_CASE("rank environment: PMI's variables are read, unless Slurm's are more complete") {
  EnvironmentGuard guard({{"PMI_RANK", "1"},
                          {"PMI_SIZE", "2"},
                          {"MPI_LOCALRANKID", "1"},
                          {"MPI_LOCALNRANKS", "2"},
                          {"MASTER_ADDR", "node0"},
                          {"MASTER_PORT", "29400"}});
  CHECK(read_rank_env().local_rank == 1);
  ::unsetenv("MPI_LOCALRANKID");
  ::unsetenv("MPI_LOCALNRANKS");
  guard.set("SLURM_JOB_ID", "17");
  guard.set("SLURM_STEP_ID", "0");
  guard.set("SLURM_STEP_NODELIST", "n[1-2]");
  guard.set("SLURM_STEP_NUM_NODES", "2");
  guard.set("SLURM_PROCID", "1");
  guard.set("SLURM_NTASKS", "2");
  guard.set("SLURM_LOCALID", "0");
  guard.set("SLURM_NODEID", "1");
  guard.set("SLURM_TASKS_PER_NODE", "1(x2)");
  CHECK(read_rank_env().local_rank == 0);
  CHECK(read_rank_env().node_rank == 1);
}

TEST_CASE("rank environment: ranks of mpirun on one host need neither address nor port") {
  EnvironmentGuard guard({{"OMPI_COMM_WORLD_RANK", "1"},
                          {"OMPI_COMM_WORLD_SIZE", "2"},
                          {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                          {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                          {"OMPI_MCA_ess_base_jobid", "411238401"}});
  const auto env = read_rank_env();
  CHECK(env.master_addr == "127.0.0.1");
  CHECK(env.store_prefix == "openmpi-411238401/attempt_0");
  CHECK(env.job.empty());
  guard.set("OMPI_MCA_ess_base_jobid", "411238402");
  CHECK(read_rank_env().master_port != env.master_port);
}

TEST_CASE("rank environment: ranks of MPICH on one host derive the port from their Hydra process") {
  EnvironmentGuard guard(
      {{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}});
  const auto port = read_rank_env().master_port;
  CHECK(port >= 15000);
  guard.set("PMI_RANK", "0");
  guard.set("MPI_LOCALRANKID", "0");
  CHECK(read_rank_env().master_port == port);
}

TEST_CASE("rank environment: mpirun on several hosts requires MASTER_ADDR") {
  EnvironmentGuard guard({{"OMPI_COMM_WORLD_RANK", "1"},
                          {"OMPI_COMM_WORLD_SIZE", "2"},
                          {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
                          {"OMPI_COMM_WORLD_LOCAL_SIZE", "1"},
                          {"PMIX_NAMESPACE", "prterun-head-17@1"}});
  CHECK(config_error_of_environment() ==
        "environment variable MASTER_ADDR is missing: this is rank 1 of 2, so it must name the "
        "host of rank 0 (mpirun -x MASTER_ADDR=HOST with OpenMPI, -genv MASTER_ADDR HOST with "
        "MPICH)");
  guard.set("MASTER_ADDR", "head");
  CHECK(read_rank_env().master_port >= 15000);
}

TEST_CASE("rank environment: MPICH on several hosts requires MASTER_PORT") {
  EnvironmentGuard guard({{"PMI_RANK", "1"},
                          {"PMI_SIZE", "2"},
                          {"MPI_LOCALRANKID", "0"},
                          {"MPI_LOCALNRANKS", "1"},
                          {"MASTER_ADDR", "head"}});
  CHECK(config_error_of_environment() ==
        "environment variable MASTER_PORT is missing: this is rank 1 of 2, so it must be a free "
        "port of head");
}

TEST_CASE("rank environment: missing variables are named") {
  EnvironmentGuard guard({{"RANK", "0"}});
  CHECK(config_error_of_environment() ==
        "environment variable WORLD_SIZE is missing, but RANK is set");
  guard.set("WORLD_SIZE", "2");
  CHECK(config_error_of_environment() ==
        "environment variable MASTER_ADDR is missing: this is rank 0 of 2, so it must name the "
        "host of rank 0");
  guard.set("MASTER_ADDR", "head");
  CHECK(config_error_of_environment() ==
        "environment variable MASTER_PORT is missing: this is rank 0 of 2, so it must be a free "
        "port of head");
  guard.set("LOCAL_RANK", "0");
  CHECK(config_error_of_environment() ==
        "environment variable LOCAL_WORLD_SIZE is missing, but LOCAL_RANK is set");
}

TEST_CASE("rank environment: contradictions are named with their values") {
  EnvironmentGuard guard({{"RANK", "2"}, {"WORLD_SIZE", "2"}});
  CHECK(config_error_of_environment() ==
        "environment variables RANK=2 and WORLD_SIZE=2 contradict each other: the first must be "
        "smaller");
  guard.set("RANK", "1");
  guard.set("LOCAL_RANK", "2");
  guard.set("LOCAL_WORLD_SIZE", "2");
  CHECK(config_error_of_environment() ==
        "environment variables LOCAL_RANK=2 and LOCAL_WORLD_SIZE=2 contradict each other: the "
        "first must be smaller");
  guard.set("LOCAL_RANK", "0");
  guard.set("LOCAL_WORLD_SIZE", "4");
  CHECK(config_error_of_environment() ==
        "environment variables LOCAL_WORLD_SIZE=4 and WORLD_SIZE=2 contradict each other: the "
        "first must not be larger");
}

TEST_CASE("rank environment: values that are not numbers are named") {
  const auto text = GENERATE(std::string("two"), std::string("-1"), std::string("1x"),
                             std::string("99999999999"));
  EnvironmentGuard guard({{"RANK", "0"}, {"WORLD_SIZE", text.c_str()}});
  CHECK(config_error_of_environment() ==
        "environment variable WORLD_SIZE=" + text + ": expected a number of at least 0");
}

TEST_CASE("rank environment: an invalid port is named") {
  EnvironmentGuard guard(
      {{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "head"}, {"MASTER_PORT", "65536"}});
  CHECK(config_error_of_environment() ==
        "environment variable MASTER_PORT=65536: expected 1 to 65535");
}

TEST_CASE("rank environment: only a positive number sets the threads") {
  EnvironmentGuard guard;
  CHECK_FALSE(requested_num_threads());
  guard.set("OMP_NUM_THREADS", "3");
  CHECK(requested_num_threads() == 3);
  guard.set("OMP_NUM_THREADS", "0");
  CHECK_FALSE(requested_num_threads());
  guard.set("OMP_NUM_THREADS", "many");
  CHECK_FALSE(requested_num_threads());
}

TEST_CASE("rank environment: an empty variable counts as not set") {
  EnvironmentGuard guard({{"RANK", ""}, {"WORLD_SIZE", ""}});
  CHECK_FALSE(environment("RANK"));
  CHECK(read_rank_env().world_size == 1);
}

}  // namespace lockstep::launch
