// The `lockstep` binary itself, with shell scripts as workers.
#include <algorithm>
#include <catch2/catch.hpp>
#include <csignal>
#include <cstdlib>

#include "tests/launch/command_shell.h"
#include "tracking/runs/end_facts.h"

namespace lockstep::launch {

TEST_CASE("lockstep: version and help work, an unknown command is named with the nearest one") {
  Shell shell;
  CHECK(shell.lockstep("version").out.starts_with("lockstep 0."));
  CHECK(shell.lockstep("--version").out == shell.lockstep("version").out);
  const auto help = shell.lockstep("--help");
  CHECK(help.exit_code == 0);
  CHECK(help.out.find("  launch ") != std::string::npos);
  const auto unknown = shell.lockstep("lunch");
  CHECK(unknown.exit_code == 78);
  CHECK(unknown.err.starts_with(
      "lockstep: error: unknown command 'lunch'; did you mean 'launch'? valid: launch, "));
  CHECK(shell.lockstep("").exit_code == 78);
}

TEST_CASE("lockstep launch: invalid options are input errors on one line") {
  Shell shell;
  const std::pair<const char*, const char*> cases[] = {
      {"-n 2", "missing run file; usage: lockstep launch [OPTION...] CONFIG [a.b=value ...]"},
      {"-n two a.yaml", "--nproc-per-node two: expected a number from 1 to 1024"},
      {"--stop-grace soon a.yaml",
       "command line: --stop-grace: expected a duration such as '30 s', '10 min' or '2 h', got"},
      {"--master-prot 1 a.yaml",
       "unknown option '--master-prot'; did you mean '--master-port'? valid: "},
      {"-n", "Option"},
      {"--run-id a --resume b a.yaml",
       "--run-id a and --resume b name different runs: give only one of them"},
      {"--run-id ../a a.yaml", "--run-id ../a: expected letters, digits"},
      {"--nnodes 2 a.yaml",
       "missing --rdzv-endpoint (or --master-addr, the host of node 0), which is required with"},
      {"--nnodes 3:2 a.yaml", "--nnodes 3:2: expected MIN:MAX with MIN <= MAX"},
      {"--nnodes 2 --rdzv-endpoint 127.0.0.1:x a.yaml",
       "--rdzv-endpoint 127.0.0.1:x: expected HOST or HOST:PORT"},
      {"--nnodes 2 --rdzv-endpoint 127.0.0.1 --rdzv-conf joint_timeout=3 a.yaml",
       "--rdzv-conf joint_timeout: unknown setting; did you mean 'join_timeout'?"},
      {"--nnodes 2 --rdzv-endpoint 127.0.0.1 --rdzv-backend etcd a.yaml",
       "--rdzv-backend etcd: unknown; valid: c10d, static"},
      {"--nnodes 2 --rdzv-endpoint 127.0.0.1 --rdzv-backend static a.yaml",
       "missing --node-rank: --rdzv-backend static requires it on every node"},
      {"--nnodes 2 --rdzv-endpoint 10.254.1.2 --program true",
       "10.254.1.2 is not a loopback address, so every node needs the job's token: create one with "
       "'lockstep launch --new-token FILE'"},
      {"--nnodes 2 --rdzv-endpoint 127.0.0.1 --rdzv-token-file nowhere a.yaml",
       "--rdzv-token-file nowhere: there is no such file; create it with 'lockstep launch "
       "--new-token nowhere'"},
      {"--standalone --nnodes 2 a.yaml", "--standalone runs on one node, but --nnodes is 2"},
      {"--interface nothing0 --program true", "--interface nothing0: no such interface"},
      {"-n 2 --local-ranks-filter 2 --program true",
       "--local-ranks-filter 2: there is no local rank 2; valid: 0 to 1"},
      {"--max-restarts -1 a.yaml", "--max-restarts -1: expected a number from 0"},
      {"--nnodes 2 --node-rank 2 --master-addr 127.0.0.1 a.yaml",
       "--node-rank 2: expected a number from 0 to 1"},
      {"--tee 4 --program sh", "--tee 4: expected 0 (nothing)"},
      {"missing.yaml", "missing.yaml: cannot be read: No such file or directory"},
      {"-n 2 t.py",
       "t.py: expected a map of 'key: value' lines; to start a program: lockstep launch -n 2 -- "
       "python t.py"},
      {"--monitor-interval 0 --program true", "--monitor-interval 0: expected at least 1 ms"},
      {"--master-addr 127.0.0.1:29577 --nnodes 2 --node-rank 0 --program true",
       "--master-addr 127.0.0.1:29577: expected a host without a port; the port is --master-port"},
      {"--hostfile hosts --export NOT_SET --export PATH --program true",
       "--export NOT_SET: environment variable is not set"},
  };
  shell.write("t.py", "print('hello')\n");
  shell.write("hosts", "localhost\n");
  for (const auto& [arguments, message] : cases) {
    const auto result = shell.lockstep(std::string("launch ") + arguments);
    CHECK(result.exit_code == 78);
    CHECK(result.err.starts_with("lockstep: error: " + std::string(message)));
    CHECK(std::count(result.err.begin(), result.err.end(), '\n') == 1);
  }
  CHECK_FALSE(shell.has("runs"));
}

TEST_CASE("lockstep launch: zero is a duration, with or without a unit") {
  Shell shell;
  for (const char* zero : {"0", "0s", "'0 s'", "0min"}) {
    INFO(zero);
    const auto result = shell.lockstep(std::string("launch --restart-delay ") + zero +
                                       " --stop-grace " + zero + " --program true");
    CHECK(result.exit_code == 0);
    CHECK(result.err.empty());
  }
}

TEST_CASE("lockstep launch: torchrun's options in both spellings and as environment variables") {
  Shell shell;
  // The message for an invalid value does not depend on where it is set.
  const std::pair<std::string, std::string> options[] = {
      {"nproc-per-node", "--nproc-per-node @: expected a number"},
      {"nnodes", "--nnodes @: expected a number"},
      {"node-rank", "--node-rank @: expected a number"},
      {"master-port", "--master-port @: expected a number"},
      {"max-restarts", "--max-restarts @: expected a number"},
      {"monitor-interval", "command line: --monitor-interval: expected a duration"},
      {"rdzv-backend", "--rdzv-backend @: unknown; valid: c10d, static"},
      {"rdzv-endpoint", "--rdzv-endpoint @:x: expected HOST or HOST:PORT"},
      {"rdzv-conf", "--rdzv-conf @: unknown setting"},
      {"redirects", "--redirects @: expected 0 (nothing)"},
      {"tee", "--tee @: expected 0 (nothing)"},
      {"local-ranks-filter", "--local-ranks-filter @: "}};
  for (const auto& [name, wanted] : options) {
    INFO(name);
    const std::string wrong = name == "rdzv-endpoint" ? "@:x" : "@";
    auto underscores = name;
    std::replace(underscores.begin(), underscores.end(), '-', '_');
    auto variable = "PET_" + underscores;
    std::transform(variable.begin(), variable.end(), variable.begin(), ::toupper);
    const std::string nodes = name.starts_with("rdzv") ? "--nnodes 2 --master-addr 127.0.0.1 " : "";
    for (const auto& given : {"--" + name + " " + wrong, "--" + name + "=" + wrong,
                              "--" + underscores + " " + wrong, "--" + underscores + "=" + wrong}) {
      const auto result = shell.lockstep("launch " + nodes + given + " --program true");
      CHECK(result.err.starts_with("lockstep: error: " + wanted));
    }
    ::setenv(variable.c_str(), wrong.c_str(), 1);
    const auto result = shell.lockstep("launch " + nodes + "--program true");
    ::unsetenv(variable.c_str());
    CHECK(result.err.starts_with("lockstep: error: " + wanted));
  }
}

TEST_CASE("lockstep launch: unsupported options of torchrun are named") {
  Shell shell;
  for (const char* option :
       {"-m", "--no-python", "--run-path", "--start-method", "--event-log-handler", "--logs-specs",
        "--numa-binding", "--signals-to-handle", "--virtual-local-rank",
        "--duplicate-stdout-filters", "--duplicate-stderr-filters"}) {
    const auto result = shell.lockstep("launch " + std::string(option) + " --program true");
    CHECK(result.exit_code == 78);
    CHECK(result.err.starts_with("lockstep: error: unknown option '" + std::string(option)));
  }
}

TEST_CASE("lockstep launch: torchrun's defaults") {
  Shell shell;
  const auto result = shell.lockstep(
      "launch --program sh -- -c 'echo $WORLD_SIZE $GROUP_WORLD_SIZE $ROLE_NAME $MASTER_ADDR "
      "$TORCHELASTIC_MAX_RESTARTS $TORCHELASTIC_RESTART_COUNT'");
  CHECK(result.out == "[rank 0] 1 1 default 127.0.0.1 0 0\n");
}

TEST_CASE("lockstep launch: ranks for each core or GPU") {
  Shell shell;
  CHECK(shell.lockstep("launch -n cpu --program true").exit_code == 0);
  shell.environment.set("CUDA_VISIBLE_DEVICES", "");
  CHECK(shell.lockstep("launch -n auto --program true").exit_code == 0);
  const auto result = shell.lockstep("launch -n gpu --program true");
  CHECK(result.exit_code == 78);
  CHECK(result.err == "lockstep: error: --nproc-per-node gpu: no GPU is visible to this process\n");
}

TEST_CASE("lockstep launch: help lists the options") {
  Shell shell;
  const auto help = shell.lockstep("launch --help");
  CHECK(help.exit_code == 0);
  for (const char* option :
       {"--nproc-per-node", "--nnodes", "--node-rank", "--master-addr", "--master-port",
        "--log-dir", "--tee", "--stop-grace", "--run-id", "--resume", "--program",
        "--rdzv-endpoint", "--rdzv-id", "--max-restarts", "--rdzv-token-file", "--new-token"})
    CHECK(help.out.find(option) != std::string::npos);
}

TEST_CASE("lockstep launch: workers get the run file and its overrides unchanged") {
  Shell shell;
  shell.write("a.yaml", "run: {name: digits, dir: out}\n");
  shell.write("worker.sh", "echo \"$# [$1] [$2] $LOCKSTEP_RUN_ID\"\n");
  std::filesystem::permissions(shell.directory.path() / "worker.sh",
                               std::filesystem::perms::owner_all);
  const auto result = shell.lockstep(
      "launch --nproc_per_node=2 --program ./worker.sh a.yaml 'model.hidden=[1, 2]'");
  CHECK(result.err.empty());
  CHECK(result.exit_code == 0);
  CHECK(result.out.find("[rank 1] 2 [a.yaml] [model.hidden=[1, 2]] digits-") != std::string::npos);
  CHECK(shell.has("out"));
}

TEST_CASE(
    "lockstep launch: the first argument of a program may be a YAML file of another program") {
  Shell shell;
  for (const char* text : {"dim: ${model.dim}\n", "[1, 2]\n", "a: 1\n---\nb: 2\n", "run: 3\n"}) {
    shell.write("m.yaml", text);
    const auto result = shell.lockstep("launch --tee 0 --run-id r --log-dir logs -- cat m.yaml");
    CHECK(result.err.empty());
    CHECK(shell.text("logs/attempt_0/0/stdout.log") == text);
    std::filesystem::remove_all(shell.directory.path() / "logs");
  }
  shell.write("m.yaml", "a: {b: 1}\n");
  CHECK(shell.lockstep("launch -- echo m.yaml a.b= x=y").out == "[rank 0] m.yaml a.b= x=y\n");
}

TEST_CASE("lockstep launch: a run that failed is recorded with its cause") {
  Shell shell;
  const auto result = shell.lockstep(
      "launch -n 2 --run-id r --program sh -- -c 'touch runs/r/run.json; "
      "if [ $RANK = 1 ]; then kill -SEGV $$; fi; exec sleep 1000'");
  CHECK(result.exit_code == 70);
  const auto end = tracking::read_run_end(shell.directory.path() / "runs/r");
  REQUIRE(end);
  CHECK(end->state == RunState::Failed);
  CHECK(end->exit_code == 70);
  CHECK(end->signal == SIGSEGV);
  CHECK(end->rank == 1);
  CHECK(end->reason == "rank 1 (of 2) failed first: killed by SIGSEGV (invalid memory access)");
}

TEST_CASE("lockstep launch: if all ranks failed alike, none is reported or recorded as the cause") {
  Shell shell;
  shell.write("worker.sh", R"(touch runs/r/run.json
echo '{"message": {"message": "no", "extraInfo": {"timestamp_us": 1000, "kind": "config"}}}' \
  > $TORCHELASTIC_ERROR_FILE
touch $RANK.ready
while [ ! -e 0.ready ] || [ ! -e 1.ready ]; do sleep 0.01; done
exit 78
)");
  const auto result = shell.lockstep("launch -n 2 --run-id r --program sh -- worker.sh");
  CHECK(result.exit_code == 78);
  CHECK(result.err.starts_with(
      "lockstep: all 2 ranks failed: exited with code 78 (the input is wrong)\n  no\nlogs: "));
  const auto end = tracking::read_run_end(shell.directory.path() / "runs/r");
  REQUIRE(end);
  CHECK(end->exit_code == 78);
  CHECK_FALSE(end->rank);
  CHECK(end->reason == "no");
}

TEST_CASE("lockstep launch: a run that was stopped from outside is recorded as killed") {
  Shell shell;
  const auto result = shell.lockstep(
      "launch --run-id r --program sh -- -c 'touch runs/r/run.json; kill -TERM $PPID; exec sleep "
      "1000'");
  CHECK(result.exit_code == 128 + SIGTERM);
  CHECK(result.err == "lockstep: stopped by SIGTERM\n");
  const auto end = tracking::read_run_end(shell.directory.path() / "runs/r");
  REQUIRE(end);
  CHECK(end->state == RunState::Killed);
  CHECK(end->signal == SIGTERM);
}

TEST_CASE("lockstep launch: a run to resume must exist, and is passed to the ranks") {
  Shell shell;
  shell.write("a.yaml", "");
  std::filesystem::create_directories(shell.directory.path() / "runs/mnist-1");
  shell.write("runs/mnist-1/run.json", "{}");
  const auto unknown = shell.lockstep("launch --resume mnist-2 a.yaml");
  CHECK(unknown.exit_code == 78);
  CHECK(
      unknown.err ==
      "lockstep: error: --resume mnist-2: there is no such run in runs; did you mean 'mnist-1'?\n");
  const auto begun = shell.lockstep("launch --resume mni a.yaml");
  CHECK(begun.err.ends_with("there is no such run in runs; did you mean 'mnist-1'?\n"));
  const auto path = shell.lockstep("launch --resume runs/mnist-1/ a.yaml");
  CHECK(path.exit_code == 78);
  CHECK(path.err.ends_with("not beginning with '.'; did you mean 'mnist-1'?\n"));
  const auto mirrored = shell.lockstep(
      "launch --resume mnist-2 --program echo a.yaml checkpoint.mirror=s3://bucket/runs");
  CHECK(mirrored.out.ends_with(" --resume mnist-2\n"));
  const auto known = shell.lockstep("launch --resume mnist-1 --program echo a.yaml x=1");
  CHECK(known.out == "[rank 0] a.yaml x=1 --resume mnist-1\n");
  CHECK(shell.has("runs/mnist-1/logs/attempt_0/0/stdout.log"));
}

}  // namespace lockstep::launch
