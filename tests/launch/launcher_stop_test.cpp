#include <poll.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>

#include "core/system/file_descriptor.h"
#include "lockstep/error.h"
#include "tests/launch/shell_launch.h"

namespace lockstep::launch {
namespace {

using namespace std::chrono_literals;

// Runs the launch in a separate process, so that the test can send signals to its launcher.
class ForkedLaunch {
 public:
  explicit ForkedLaunch(const ShellLaunch& launch) : pid_(::fork()) {
    if (pid_ != 0) return;
    int code = 99;
    try {
      const auto report = launch.run();
      std::ofstream(launch.path("report")) << report.text();
      std::ofstream(launch.path("is_console_complete")) << report.is_console_complete;
      code = report.exit_code();
    } catch (const std::exception&) {
    }
    ::_exit(code);
  }
  ForkedLaunch(const ForkedLaunch&) = delete;
  ~ForkedLaunch() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  void signal(int number) const { ::kill(pid_, number); }
  bool ends_within(std::chrono::milliseconds time) const {
    const FileDescriptor process(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
    pollfd request{.fd = process.get(), .events = POLLIN};
    return ::poll(&request, 1, static_cast<int>(time.count())) > 0;
  }
  // Its exit code, or minus the signal that killed it.
  int wait() {
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

 private:
  pid_t pid_;
};

double seconds_of(const std::function<void()>& action) {
  const auto begin = std::chrono::steady_clock::now();
  action();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// Holds the pipe `$DIR/life` open as long as the worker lives, reports that it is ready, and waits.
const std::string kHoldOn = "exec 9>$DIR/life; echo ready >&9; exec sleep 1000";

}  // namespace

TEST_CASE(
    "launcher: the launch exits with the code of the failed rank, and the others are stopped") {
  ShellLaunch launch(
      "if [ $RANK = 1 ]; then read x < $DIR/go; echo 'no such file' >&2; "
      "echo '[W1122 22:16:26.123456789 socket.cpp:464] [c10d] The hostname' >&2; exit 3; fi; "
      "echo go > $DIR/go; " +
          kHoldOn,
      2);
  REQUIRE(::mkfifo(launch.path("go").c_str(), 0600) == 0);
  Fifo life(launch.path("life"));
  LaunchReport report;
  CHECK(seconds_of([&] { report = launch.run(); }) < 20);
  CHECK(report.exit_code() == 3);
  REQUIRE(report.cause());
  CHECK(report.cause()->rank == 1);
  CHECK(report.cause()->last_lines == std::vector<std::string>{"no such file"});
  CHECK(report.cause()->log == launch.path("logs/attempt_0/1/stderr.log"));
  CHECK(report.workers[0].stopped);
  CHECK(report.workers[0].exit.signal == SIGTERM);
  CHECK(report.text() ==
        "rank 1 (of 2) failed first: exited with code 3\n  no such file\n  stopped as a result: "
        "rank 0\n");
}

TEST_CASE("launcher: a killed rank is reported with its signal") {
  ShellLaunch launch("if [ $RANK = 0 ]; then kill -9 $$; fi; exec sleep 1000", 2);
  const auto report = launch.run();
  CHECK(report.exit_code() == 75);
  CHECK(report.summary() ==
        "rank 0 (of 2) failed first: killed by SIGKILL (possibly the OOM killer, or kill -9)");
}

TEST_CASE(
    "launcher: a rank's error file takes precedence, and a rank that only lost a peer is not the "
    "cause") {
  // Rank 1 reports a lost peer and exits first; rank 0 has failed before, but exits slowly.
  ShellLaunch launch(
      R"(if [ $RANK = 0 ]; then
           echo '{"message": {"message": "disk full", "extraInfo": {"timestamp_us": 1000, "kind": "environment"}}}' \
             > $TORCHELASTIC_ERROR_FILE
           trap 'exit 75' TERM; echo go > $DIR/go; while :; do sleep 0.02; done
         fi
         read x < $DIR/go
         echo '{"message": {"message": "lost rank 0", "extraInfo": {"timestamp_us": 900, "peer": true}}}' \
             > $TORCHELASTIC_ERROR_FILE
         exit 70)",
      2);
  REQUIRE(::mkfifo(launch.path("go").c_str(), 0600) == 0);
  const auto report = launch.run();
  REQUIRE(report.cause());
  CHECK(report.cause()->rank == 0);
  CHECK(report.cause()->detail() == std::vector<std::string>{"disk full"});
  CHECK(report.exit_code() == 75);
}

TEST_CASE(
    "launcher: a rank that ignores SIGTERM is killed after the grace period, with its children") {
  ShellLaunch launch(
      "if [ $RANK = 1 ]; then read x < $DIR/go; exit 3; fi; "
      "trap '' TERM; exec 9>$DIR/life; sleep 1000 & echo go > $DIR/go; wait",
      2);
  REQUIRE(::mkfifo(launch.path("go").c_str(), 0600) == 0);
  Fifo life(launch.path("life"));
  launch.options.stop_grace = 200ms;
  LaunchReport report;
  CHECK(seconds_of([&] { report = launch.run(); }) < 10);
  CHECK(report.exit_code() == 3);
  CHECK(report.workers[0].exit.signal == SIGKILL);
  CHECK(report.workers[0].stopped);
  CHECK(report.notes ==
        std::vector<std::string>{"killed because they did not exit in time: rank 0"});
  CHECK(life.is_deserted());
}

TEST_CASE("launcher: no worker survives a SIGKILL of the launcher") {
  ShellLaunch launch(kHoldOn, 2);
  Fifo life(launch.path("life"));
  ForkedLaunch forked(launch);
  auto words = life.read();
  while (words.size() < std::string("ready\nready\n").size()) {
    const auto more = life.read();
    REQUIRE(!more.empty());
    words += more;
  }
  forked.signal(SIGKILL);
  CHECK(forked.wait() == -SIGKILL);
  CHECK(life.is_deserted());
}

TEST_CASE("launcher: a signal stops the workers gracefully, and the exit code reports it") {
  const int number = GENERATE(SIGINT, SIGTERM, SIGHUP, SIGQUIT);
  ShellLaunch launch(
      "trap 'echo saved; exit 0' TERM; exec 9>$DIR/life; echo ready >&9; while :; do sleep 0.02; "
      "done");
  Fifo life(launch.path("life"));
  ForkedLaunch forked(launch);
  REQUIRE(life.read() == "ready\n");
  forked.signal(number);
  CHECK(forked.wait() == 128 + number);
  CHECK(launch.log(0, "stdout.log") == "saved\n");
  CHECK(text_of(launch.path("report")) == "stopped by " + signal_name(number) + "\n");
}

TEST_CASE("launcher: ranks can save after a signal also if the console is not read") {
  ShellLaunch launch(
      "trap 'seq 1 400000; echo saved > $DIR/saved; exit 0' TERM; exec 9>$DIR/life; "
      "sleep 1000 & echo ready >&9; wait");
  Fifo life(launch.path("life"));
  const auto console = make_pipe();
  launch.options.stdout_fd = console.write_end.get();
  ForkedLaunch forked(launch);
  REQUIRE(life.read() == "ready\n");
  forked.signal(SIGTERM);
  CHECK(forked.wait() == 128 + SIGTERM);
  CHECK(text_of(launch.path("saved")) == "saved\n");
  CHECK(launch.log(0, "stdout.log").ends_with("\n400000\n"));
  CHECK(text_of(launch.path("is_console_complete")) == "0");
}

TEST_CASE("launcher: a second signal kills immediately, unless it follows within a second") {
  ShellLaunch launch("trap '' TERM; " + kHoldOn);
  Fifo life(launch.path("life"));
  launch.options.stop_grace = 10min;
  ForkedLaunch forked(launch);
  REQUIRE(life.read() == "ready\n");
  const auto lasted = seconds_of([&] {
    while (!forked.ends_within(100ms)) forked.signal(SIGTERM);
    CHECK(forked.wait() >= 128);
  });
  CHECK(lasted > 1);
  CHECK(lasted < 30);
  CHECK(life.is_deserted());
}

TEST_CASE("launcher: SIGUSR1 stops the job also between two attempts") {
  ShellLaunch launch("echo ready > $DIR/attempt_$TORCHELASTIC_RESTART_COUNT; exit 1");
  Fifo second(launch.path("attempt_1"));
  launch.options.max_restarts = 2;
  launch.options.restart_delay = 10min;  // before the third
  ForkedLaunch forked(launch);
  REQUIRE(second.read() == "ready\n");
  for (int i = 0; i < 600 && !forked.ends_within(100ms); ++i) forked.signal(SIGUSR1);
  REQUIRE(forked.ends_within(0ms));
  CHECK(forked.wait() == 128 + SIGUSR1);
  CHECK_THAT(text_of(launch.path("report")), Catch::Contains("stopped by SIGUSR1"));
}

TEST_CASE("launcher: workers that do not handle a forwarded SIGUSR1 are stopped by it") {
  ShellLaunch launch(kHoldOn);
  Fifo life(launch.path("life"));
  launch.options.max_restarts = 1;
  ForkedLaunch forked(launch);
  REQUIRE(life.read() == "ready\n");
  forked.signal(SIGUSR1);
  REQUIRE(forked.ends_within(60s));
  CHECK(forked.wait() == 128 + SIGUSR1);
  CHECK_THAT(text_of(launch.path("report")), Catch::Contains("stopped by SIGUSR1"));
}

TEST_CASE("launcher: a signal that was ignored when it started stays ignored") {
  ShellLaunch launch("exec 9>$DIR/life; echo ready >&9; read x < $DIR/go");
  REQUIRE(::mkfifo(launch.path("go").c_str(), 0600) == 0);
  Fifo life(launch.path("life"));
  const auto previous = ::signal(SIGHUP, SIG_IGN);
  ForkedLaunch forked(launch);
  ::signal(SIGHUP, previous);
  REQUIRE(life.read() == "ready\n");
  forked.signal(SIGHUP);
  std::ofstream(launch.path("go")) << "go\n";
  CHECK(forked.wait() == 0);
}

TEST_CASE("launcher: a process that outlives its worker does not block the launcher") {
  ShellLaunch launch("setsid sleep 60 & echo $! > $DIR/pid; echo hello");
  LaunchReport report;
  CHECK(seconds_of([&] { report = launch.run(); }) < 20);
  CHECK(report.succeeded());
  CHECK(launch.console() == "[rank 0] hello\n");
  ::kill(std::stoi(text_of(launch.path("pid"))), SIGKILL);
}

TEST_CASE("launcher: processes left in a worker's process group are killed with the launch") {
  ShellLaunch launch("exec 9>$DIR/life; sleep 1000 & echo ready >&9");
  Fifo life(launch.path("life"));
  CHECK(launch.run().succeeded());
  CHECK(life.read() == "ready\n");
  CHECK(life.is_deserted());
}

// With the byte of the progress page that says that the worker has taken part in a step.
constexpr const char* kTakePart =
    "printf '\\001' | dd of=/proc/self/fd/$LOCKSTEP_PROGRESS_FD bs=1 seek=29100 conv=notrunc\n";

TEST_CASE("launcher: a rank that is killed after the last step has failed") {
  ShellLaunch launch("if [ $RANK = 1 ]; then exec 9>$DIR/life\n" + std::string(kTakePart) +
                         "kill -SEGV $$; fi; cat $DIR/life",
                     2);
  REQUIRE(::mkfifo(launch.path("life").c_str(), 0600) == 0);
  launch.options.continues_on_loss = true;
  ForkedLaunch forked(launch);
  REQUIRE(forked.ends_within(60s));
  CHECK(forked.wait() == static_cast<int>(ErrorKind::Bug));
  CHECK_THAT(text_of(launch.path("report")),
             Catch::Contains("rank 1") && Catch::Contains("SIGSEGV"));
}

TEST_CASE("launcher: a rank that is killed before the ranks train stops the others at once") {
  ShellLaunch launch(
      "if [ $RANK = 1 ]; then kill -KILL $$; fi; while :; do read -r line < $DIR/never; done", 2);
  REQUIRE(::mkfifo(launch.path("never").c_str(), 0600) == 0);
  launch.options.continues_on_loss = true;
  ForkedLaunch forked(launch);
  REQUIRE(forked.ends_within(60s));
  CHECK(forked.wait() == static_cast<int>(ErrorKind::Environment));
  CHECK_THAT(text_of(launch.path("report")),
             Catch::Contains("rank 1") && Catch::Contains("SIGKILL"));
}

// A worker is killed after a step and started again; the other one ends when the new process has started.
TEST_CASE("launcher: the end of a job does not wait for a process that is being started") {
  const std::string trap = GENERATE("", "trap '' TERM; ");
  ShellLaunch launch("if [ \"$LOCKSTEP_SPARE\" ]; then " + trap +
                         ": > $DIR/started; while :; do read -r line < $DIR/never; done; fi\n"
                         "if [ $RANK = 1 ]; then exec 9>$DIR/life\n" +
                         kTakePart +
                         "  kill -KILL $$\n"
                         "fi\n"
                         "cat $DIR/life\n"
                         "until [[ \"$answer\" == *'\"join\"'* ]]; do\n"  // until the loss is known
                         "  printf 'broken 5 1000 0 0 0' >&$LOCKSTEP_GROUP_FD\n"
                         "  answer=$(dd bs=4096 count=1 <&$LOCKSTEP_GROUP_FD)\n"
                         "done; cat $DIR/started",
                     2);
  launch.options.program = "/bin/bash";  // >&N with any number
  for (const auto* name : {"life", "started", "never"})
    REQUIRE(::mkfifo(launch.path(name).c_str(), 0600) == 0);
  launch.options.continues_on_loss = true;
  launch.options.rank_restarts = 1;
  if (!trap.empty()) launch.options.stop_grace = 100ms;
  ForkedLaunch forked(launch);
  REQUIRE(forked.ends_within(60s));
  CHECK(forked.wait() == 0);
  CHECK(launch.console_errors().find("spare") == std::string::npos);
}

TEST_CASE("launcher: a log file that cannot be written is reported once and stops nothing") {
  ShellLaunch launch("seq 1 2000");
  rlimit previous{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &previous) == 0);
  const rlimit small = {.rlim_cur = 4096, .rlim_max = previous.rlim_max};
  FileDescriptor nowhere(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  launch.options.stdout_fd = nowhere.get();
  ::setrlimit(RLIMIT_FSIZE, &small);
  const auto report = launch.run();
  ::setrlimit(RLIMIT_FSIZE, &previous);
  CHECK(report.succeeded());
  CHECK(report.notes ==
        std::vector<std::string>{launch.path("logs/attempt_0/0/stdout.log").string() +
                                 " is incomplete: File too large"});
  CHECK(launch.log(0, "stdout.log").size() == 4096);
}

}  // namespace lockstep::launch
