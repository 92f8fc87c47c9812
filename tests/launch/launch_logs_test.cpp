// What the `lockstep` binary keeps of a launch: logs, and the outcome of the run.
#include <catch2/catch.hpp>
#include <csignal>

#include "launch/protocol/master_socket.h"
#include "tests/launch/command_shell.h"
#include "tracking/runs/end_facts.h"

namespace lockstep::launch {

TEST_CASE("lockstep launch: --run-id and run.dir set the log directory") {
  Shell shell;
  shell.write("a.yaml", "run: {dir: out}\n");
  CHECK(
      shell.lockstep("launch --run-id seven --program /bin/true a.yaml run.dir=other").exit_code ==
      0);
  CHECK(shell.has("other/seven/logs/attempt_0/0/stdout.log"));
  CHECK(shell.lockstep("launch --log-dir mine --program /bin/true a.yaml").exit_code == 0);
  CHECK(shell.has("mine/attempt_0/0/stdout.log"));
  CHECK_FALSE(shell.has("out"));
}

TEST_CASE("lockstep launch: --log-dir that is a file is an input error") {
  Shell shell;
  shell.write("file", "");
  for (const char* path : {"file", "file/logs"}) {
    const auto result = shell.lockstep(std::string("launch --program /bin/true --log-dir ") + path);
    CHECK(result.exit_code == 78);
    CHECK(result.err ==
          "lockstep: error: --log-dir: file is a file, not a directory; choose another\n");
  }
  CHECK_FALSE(shell.has("runs"));
}

TEST_CASE("lockstep launch: an input error leaves no directory, other failures leave their logs") {
  Shell shell;
  const auto wrong = shell.lockstep("launch -n 2 --program sh -- -c 'echo bad key >&2; exit 78'");
  CHECK(wrong.exit_code == 78);
  CHECK(wrong.err.find("failed first: exited with code 78 (the input is wrong)\n  bad key\n") !=
        std::string::npos);
  CHECK_FALSE(shell.has("runs"));
  CHECK(shell.lockstep("launch --program no-such-program").exit_code == 78);
  CHECK_FALSE(shell.has("runs"));
  const auto failed = shell.lockstep("launch --run-id r --program sh -- -c 'echo why >&2; exit 5'");
  CHECK(failed.exit_code == 5);
  CHECK(failed.err ==
        "[rank 0] why\nlockstep: rank 0 (of 1) failed first: exited with code 5\n  why\n"
        "logs: runs/r/logs/attempt_0/0/stderr.log\n");
  CHECK(shell.has("runs/r/logs/attempt_0/0/stderr.log"));
}

TEST_CASE("lockstep launch: output that the console did not show is kept") {
  Shell shell;
  CHECK(shell.lockstep("launch --tee 0 --run-id r --program sh -- -c 'exit 78'").exit_code == 78);
  CHECK(shell.has("runs/r/logs/attempt_0/0/stderr.log"));
}

TEST_CASE("lockstep launch: a rejected launch removes its own logs only") {
  Shell shell;
  shell.write("worker.sh", LOCKSTEP_PROGRAM " launch --log-dir logs -- echo other\nexit 78\n");
  CHECK(shell.lockstep("launch --log-dir logs --program sh -- worker.sh").exit_code == 78);
  CHECK_FALSE(shell.has("logs/attempt_0"));
  CHECK(shell.text("logs/attempt_1/0/stdout.log") == "other\n");
}

TEST_CASE("lockstep launch: an attempt that is rejected leaves the logs of earlier ones") {
  Shell shell;
  shell.write("worker.sh", "[ -e again ] && exit 78\necho first\n>again\nkill -KILL $$\n");
  const auto result = shell.lockstep(
      "launch --max-restarts 1 --restart-delay 0s --log-dir logs --program sh -- worker.sh");
  CHECK(result.exit_code == 78);
  CHECK(shell.text("logs/attempt_0/0/stdout.log") == "first\n");
  CHECK_FALSE(shell.has("logs/attempt_1"));
}

TEST_CASE(
    "lockstep launch: output that the console could not show is kept, and a note says where") {
  Shell shell;
  const auto result =
      shell.lockstep("launch --run-id r --program sh -- -c 'echo hi; exit 78'", "/dev/full");
  CHECK(result.exit_code == 78);
  CHECK(
      result.err.ends_with("lockstep: this console lacks output of the ranks, which is in "
                           "runs/r/logs/attempt_0\n"));
  CHECK(shell.text("runs/r/logs/attempt_0/0/stdout.log") == "hi\n");
}

TEST_CASE("lockstep launch: the outcome of a run is recorded also if the console was closed") {
  Shell shell;
  shell.write("worker.sh", "touch runs/r/run.json; read _ <closed; exit 3\n");
  shell.run("mkfifo closed; { " LOCKSTEP_PROGRAM
            " launch --run-id r --program sh -- worker.sh; echo $? >code; } 2>&1 | { exec <&-; "
            "echo >closed; }");
  CHECK(shell.text("code") == "3\n");
  const auto end = tracking::read_run_end(shell.directory.path() / "runs/r");
  REQUIRE(end);
  CHECK(end->exit_code == 3);
}

TEST_CASE("lockstep launch: a restart that cannot start is recorded, and the logs are kept") {
  Shell shell;
  shell.write("x.sh", "#!/bin/sh\ntouch runs/r/run.json; echo first; chmod a-x x.sh; exit 3\n");
  std::filesystem::permissions(shell.directory.path() / "x.sh", std::filesystem::perms::owner_all);
  const auto result = shell.lockstep("launch --max-restarts 3 --tee 0 --run-id r --program ./x.sh");
  CHECK(result.exit_code == 78);
  CHECK_THAT(result.err,
             Catch::Contains("lockstep: cannot start") && Catch::EndsWith("\n  after 1 restart\n"));
  CHECK(shell.text("runs/r/logs/attempt_0/0/stdout.log") == "first\n");
  const auto end = tracking::read_run_end(shell.directory.path() / "runs/r");
  REQUIRE(end);
  CHECK(end->exit_code == 78);
}

TEST_CASE("lockstep launch: a port that is taken matters only to a restart") {
  const int max_restarts = GENERATE(0, 1);
  Shell shell;
  // Rank 0 leaves a process with its listening socket.
  shell.write("worker.sh", R"(touch runs/r/run.json
mkfifo up
setsid sh -c 'echo >up; exec sleep 1000' >/dev/null 2>&1 &
echo $! >pid
read _ <up
exit 5
)");
  const int port = listen_as_master(0, true).port;
  const auto result =
      shell.lockstep("launch --run-id r --max-restarts " + std::to_string(max_restarts) +
                     " --master-port " + std::to_string(port) + " --program sh -- worker.sh");
  ::kill(std::stoi(shell.text("pid")), SIGKILL);
  CHECK(result.exit_code == (max_restarts ? 75 : 5));
  CHECK((result.err.find("lockstep: cannot listen on port") != std::string::npos) ==
        (max_restarts == 1));
  const auto end = tracking::read_run_end(shell.directory.path() / "runs/r");
  REQUIRE(end);
  CHECK(end->exit_code == result.exit_code);
}

}  // namespace lockstep::launch
