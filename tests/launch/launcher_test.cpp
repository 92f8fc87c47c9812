#include "launch/launcher.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <csignal>
#include <ctime>
#include <sstream>

#include "launch/environment/worker_env.h"
#include "launch/protocol/master_socket.h"
#include "lockstep/error.h"
#include "tests/launch/shell_launch.h"

namespace lockstep::launch {
namespace {

std::string error_of_launch(const ShellLaunch& launch, ErrorKind kind) {
  try {
    launch.run();
  } catch (const Error& error) {
    CHECK(error.kind() == kind);
    return error.what();
  }
  return "no error";
}

bool has_line(const std::string& text, const std::string& line) {
  return ("\n" + text).find("\n" + line + "\n") != std::string::npos;
}

std::string value_in(const std::string& text, const std::string& name) {
  const auto begin = ("\n" + text).find("\n" + name + "=");
  if (begin == std::string::npos) return "(not set)";
  const auto value = begin + name.size() + 1;
  return text.substr(value, text.find('\n', value) - value);
}

}  // namespace

TEST_CASE("launcher: the console shows an error of the input once, the logs of all ranks have it") {
  ShellLaunch launch(R"(
    echo '{"message": {"message": "'"$MESSAGE"'", "extraInfo": {"kind": "'$KIND'"}}}' > $TORCHELASTIC_ERROR_FILE
    echo "lockstep-trainer: error: $MESSAGE" >&2
    mkfifo $DIR/both 2> /dev/null  # waits until both have printed; the other rank may have made it
    if [ $RANK = 0 ]; then echo > $DIR/both; else read _ < $DIR/both; fi
    exit $CODE)",
                     2);
  EnvironmentGuard environment;
  const auto run = [&](const char* kind, const char* code, const char* message) {
    environment.set("KIND", kind);
    environment.set("CODE", code);
    environment.set("MESSAGE", message);
    const auto report = launch.run();
    const auto errors = launch.console_errors();
    const auto line = fmt::format("lockstep-trainer: error: {}\n", message);
    CHECK(launch.log(0, "stderr.log") == line);
    CHECK(launch.log(1, "stderr.log") == line);
    const auto shown = has_line(errors, "[rank 0] lockstep-trainer: error: no") +
                       has_line(errors, "[rank 1] lockstep-trainer: error: no");
    return std::pair(shown, report.text());
  };
  SECTION("the input") {
    CHECK(run("config", "78", "no") ==
          std::pair(1,
                    std::string("all 2 ranks failed: exited with code 78 (the input is wrong)\n")));
  }
  SECTION("another error: each rank shows its own") {
    const auto [shown, text] = run("environment", "75", "no");
    CHECK(shown == 2);
    CHECK(text.find("\n  no\n") != std::string::npos);
  }
}

TEST_CASE("launcher: a template has the environment of its workers, but for their places") {
  EnvironmentGuard environment;
  for (const auto& entry : template_environment(2)) {
    const auto equals = entry.find('=');
    environment.set(entry.substr(0, equals).c_str(), entry.substr(equals + 1).c_str());
  }
  const WorkerPlace place{
      .local_rank = 1, .num_workers = 2, .progress_fd = 9, .error_file = "/logs/1/error.json"};
  auto worker = worker_environment(place);
  CHECK(has_template_environment(worker));
  worker.push_back("MKL_CBWR=COMPATIBLE");  // a library has read its setting already
  CHECK_FALSE(has_template_environment(worker));
  worker.pop_back();
  environment.set("OMP_NUM_THREADS", "7");
  CHECK_FALSE(has_template_environment(worker));
}

TEST_CASE("launcher: workers get torchrun's environment") {
  EnvironmentGuard environment;
  WorkerPlace place{.local_rank = 1, .num_workers = 2, .error_file = "/logs/1/error.json"};
  place.node = {.node_rank = 2, .num_nodes = 3, .first_rank = 4, .world_size = 6};
  place.node.restart_count = 1;
  place.node.max_restarts = 3;
  place.node.master_addr = "10.1.2.3";
  place.node.master_port = 4321;
  place.node.run_id = "run-7";
  place.node.address = "10.1.2.5";
  place.group_fd = 8;
  std::string env;
  for (const auto& entry : worker_environment(place)) env += entry + "\n";
  CHECK(value_in(env, "RANK") == "5");
  CHECK(value_in(env, "LOCAL_RANK") == "1");
  CHECK(value_in(env, "WORLD_SIZE") == "6");
  CHECK(value_in(env, "LOCAL_WORLD_SIZE") == "2");
  CHECK(value_in(env, "GROUP_RANK") == "2");
  CHECK(value_in(env, "GROUP_WORLD_SIZE") == "3");
  CHECK(value_in(env, "ROLE_RANK") == "5");
  CHECK(value_in(env, "ROLE_WORLD_SIZE") == "6");
  CHECK(value_in(env, "ROLE_NAME") == "default");
  CHECK(value_in(env, "MASTER_ADDR") == "10.1.2.3");
  CHECK(value_in(env, "MASTER_PORT") == "4321");
  CHECK(value_in(env, "TORCHELASTIC_RESTART_COUNT") == "1");
  CHECK(value_in(env, "TORCHELASTIC_MAX_RESTARTS") == "3");
  CHECK(value_in(env, "TORCHELASTIC_RUN_ID") == "run-7");
  CHECK(value_in(env, "LOCKSTEP_RUN_ID") == "run-7");
  CHECK(value_in(env, "LOCKSTEP_GROUP_FD") == "8");
  CHECK(value_in(env, "LOCKSTEP_GROUP_ADDRESS") == "10.1.2.5");
  CHECK(value_in(env, "LOCKSTEP_MASTER_LISTEN_FD") == "(not set)");
  CHECK(value_in(env, "TORCHELASTIC_ERROR_FILE") == "/logs/1/error.json");
  CHECK(value_in(env, "TORCH_NCCL_ASYNC_ERROR_HANDLING") == "1");
}

TEST_CASE("launcher: variables of an outer launcher are not passed to the workers") {
  ShellLaunch launch("env");
  EnvironmentGuard outer({{"TORCHELASTIC_USE_AGENT_STORE", "True"},
                          {"LOCKSTEP_RUN_ID", "outer"},
                          {"LOCKSTEP_MASTER_LISTEN_FD", "99"},
                          {"LOCKSTEP_RDZV_TOKEN", "secret"},
                          {"LOCKSTEP_GROUP_ADDRESS", "10.1.2.5"},
                          {"RANK", "7"}});
  CHECK(launch.run().succeeded());
  const auto env = launch.log(0, "stdout.log");
  CHECK(value_in(env, "TORCHELASTIC_USE_AGENT_STORE") == "(not set)");
  CHECK(value_in(env, "LOCKSTEP_RUN_ID") == "(not set)");
  CHECK(value_in(env, "LOCKSTEP_RDZV_TOKEN") == "(not set)");
  CHECK(value_in(env, "LOCKSTEP_GROUP_ADDRESS") == "(not set)");
  CHECK(value_in(env, "LOCKSTEP_MASTER_LISTEN_FD") != "99");
  CHECK(value_in(env, "RANK") == "0");
}

TEST_CASE("launcher: the cores are divided among the workers, unless OMP_NUM_THREADS is set") {
  ShellLaunch launch("env", 2);
  CHECK(launch.run().succeeded());
  CHECK(value_in(launch.log(0, "stdout.log"), "OMP_NUM_THREADS") ==
        std::to_string(std::max(1, num_usable_cores() / 2)));
  CHECK(value_in(launch.log(0, "stdout.log"), "GOMP_SPINCOUNT") == "5000");
  EnvironmentGuard decided({{"OMP_NUM_THREADS", "13"}, {"GOMP_SPINCOUNT", "7"}});
  launch.keep_logs_in("again");
  CHECK(launch.run().succeeded());
  const auto again = text_of(launch.path("again/attempt_0/0/stdout.log"));
  CHECK(value_in(again, "OMP_NUM_THREADS") == "13");
  CHECK(value_in(again, "GOMP_SPINCOUNT") == "7");
}

TEST_CASE("launcher: jobs at the same time have different GPUs, as long as there are enough") {
  const std::vector<std::string> gpus = {"0", "GPU-1", "5", "7"};
  CHECK(gpus_of_job(gpus, 0, 2) == "0,GPU-1");
  CHECK(gpus_of_job(gpus, 1, 2) == "5,7");
  CHECK(gpus_of_job(gpus, 2, 2) == "0,GPU-1");
  CHECK(gpus_of_job(gpus, 1, 3) == "7,0,GPU-1");
  CHECK(gpus_of_job(gpus, 3, 8) == "0,GPU-1,5,7");
  CHECK(gpus_of_job({}, 0, 2).empty());
}

TEST_CASE("launcher: how long threads spin is left to OMP_WAIT_POLICY, if it is set") {
  EnvironmentGuard decided({{"OMP_WAIT_POLICY", "active"}});
  ShellLaunch launch("env", 1);
  CHECK(launch.run().succeeded());
  CHECK(value_in(launch.log(0, "stdout.log"), "GOMP_SPINCOUNT") == "(not set)");
}

TEST_CASE("launcher: lines are shown with their rank, and logged unchanged") {
  ShellLaunch launch("printf 'out %s\\nno end' $RANK; printf '10%%\\r99%%\\nerr\\n' >&2", 2);
  CHECK(launch.run().succeeded());
  for (const std::string rank : {"0", "1"}) {
    CHECK(has_line(launch.console(), "[rank " + rank + "] out " + rank));
    CHECK(has_line(launch.console(), "[rank " + rank + "] no end"));
    CHECK(has_line(launch.console_errors(), "[rank " + rank + "] 99%"));
    CHECK(has_line(launch.console_errors(), "[rank " + rank + "] err"));
    CHECK(launch.log(std::stoi(rank), "stdout.log") == "out " + rank + "\nno end");
    CHECK(launch.log(std::stoi(rank), "stderr.log") == "10%\r99%\nerr\n");
  }
}

TEST_CASE("launcher: output hidden by --tee is in the log files only") {
  ShellLaunch launch("echo out; echo err >&2", 2);
  launch.options.tee = TeeSpec::parse("--tee", "0:1,1:2", 2);
  CHECK(launch.run().succeeded());
  CHECK(launch.console() == "[rank 0] out\n");
  CHECK(launch.console_errors() == "[rank 1] err\n");
  CHECK(launch.log(0, "stderr.log") == "err\n");
  CHECK(launch.log(1, "stdout.log") == "out\n");
}

TEST_CASE("launcher: large output is complete") {
  ShellLaunch launch("seq 1 200000");
  CHECK(launch.run().succeeded());
  const auto console = launch.console();
  CHECK(std::count(console.begin(), console.end(), '\n') == 200000);
  CHECK(console.ends_with("[rank 0] 200000\n"));
  CHECK(launch.log(0, "stdout.log").ends_with("\n200000\n"));
}

TEST_CASE("launcher: a closed console does not stop the workers") {
  ShellLaunch launch("seq 1 200000; echo last");
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  ::close(ends[0]);
  FileDescriptor broken(ends[1]);
  launch.options.stdout_fd = broken.get();
  CHECK(launch.run().succeeded());
  CHECK(launch.log(0, "stdout.log").ends_with("\nlast\n"));
}

TEST_CASE("launcher: a second launch keeps the logs of the first") {
  ShellLaunch launch("echo $TORCHELASTIC_ERROR_FILE");
  CHECK(launch.run().succeeded());
  CHECK(launch.run().succeeded());
  CHECK(text_of(launch.path("logs/attempt_0/0/stdout.log")) ==
        launch.path("logs/attempt_0/0/error.json").string() + "\n");
  CHECK(text_of(launch.path("logs/attempt_1/0/stdout.log")) ==
        launch.path("logs/attempt_1/0/error.json").string() + "\n");
}

TEST_CASE("launcher: workers read no input and start with default signals") {
  EnvironmentGuard guard;
  struct sigaction ignore {
  }, previous{};
  ignore.sa_handler = SIG_IGN;
  ::sigaction(SIGUSR1, &ignore, &previous);
  ShellLaunch launch("cat; grep -E 'SigBlk|SigIgn' /proc/self/status");
  CHECK(launch.run().succeeded());
  ::sigaction(SIGUSR1, &previous, nullptr);
  std::istringstream status(launch.log(0, "stdout.log"));
  std::string name;
  uint64_t blocked = 1, ignored = 1;
  status >> name >> std::hex >> blocked >> name >> ignored;
  CHECK(blocked == 0);
  // glibc reserves 32 and 33: a parent that uses posix_spawn (such as make) leaves them ignored,
  // and no program can change that.
  constexpr uint64_t kInternalSignals = uint64_t{3} << 31;
  CHECK((ignored & ~kInternalSignals) == 0);
}

TEST_CASE("launcher: rank 0 alone gets the listening socket, and no other descriptor leaks") {
  // Descriptors that this test inherited are not leaks of the launcher.
  REQUIRE(::close_range(3, ~0U, CLOSE_RANGE_CLOEXEC) == 0);
  ShellLaunch launch(
      "ls -l /proc/$$/fd | grep -c -e socket -e /tmp; echo fd=$LOCKSTEP_MASTER_LISTEN_FD; true", 2);
  CHECK(launch.run().succeeded());
  CHECK(launch.log(0, "stdout.log").starts_with("1\nfd="));
  CHECK(launch.log(0, "stdout.log") != "1\nfd=\n");
  CHECK(launch.log(1, "stdout.log") == "0\nfd=\n");
}

TEST_CASE("launcher: a rank that connects before rank 0 serves is queued, not refused") {
  // Rank 0 only holds the socket and never accepts.
  ShellLaunch launch(
      "if [ $RANK = 1 ]; then bash -c 'exec 3<>/dev/tcp/$MASTER_ADDR/$MASTER_PORT && echo "
      "connected'; "
      "echo done > $DIR/fifo; else read word < $DIR/fifo; fi",
      2);
  // Only rank 0 reads it: the write of rank 1 blocks until rank 0 has opened it.
  REQUIRE(::mkfifo(launch.path("fifo").c_str(), 0600) == 0);
  CHECK(launch.run().succeeded());
  CHECK(launch.log(1, "stdout.log") == "connected\n");
}

TEST_CASE("launcher: a port that is taken is an environment error in one line") {
  const auto taken = listen_as_master(0, true);
  ShellLaunch launch("echo never");
  launch.options.master_port = taken.port;
  CHECK(error_of_launch(launch, ErrorKind::Environment) ==
        "cannot listen on port " + std::to_string(taken.port) +
            ": Address already in use; choose another --master-port");
  CHECK_FALSE(std::filesystem::exists(launch.path("logs")));
  const auto everywhere = listen_as_master(0, false);
  CHECK_THROWS_AS(listen_as_master(everywhere.port, false), Error);
}

TEST_CASE("master socket: it accepts connections immediately") {
  const bool loopback_only = GENERATE(true, false);
  const auto master = listen_as_master(0, loopback_only);
  FileDescriptor client(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_port = htons(static_cast<uint16_t>(master.port));
  name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  CHECK(::connect(client.get(), reinterpret_cast<sockaddr*>(&name), sizeof name) == 0);
}

TEST_CASE("launcher: it uses no CPU time while idle") {
  ShellLaunch launch("exec sleep 1");
  launch.options.rendezvous.keep_alive = std::chrono::milliseconds(50);
  const auto begin = std::clock();
  CHECK(launch.run().succeeded());
  CHECK(static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC < 0.2);
}

TEST_CASE("launcher: a program that cannot be executed is an input error") {
  ShellLaunch launch("");
  launch.options.program = "/nonexistent/trainer";
  CHECK(error_of_launch(launch, ErrorKind::Config) ==
        "cannot start '/nonexistent/trainer': No such file or directory");
  launch.options.program = "no-such-program";
  CHECK(error_of_launch(launch, ErrorKind::Config) ==
        "cannot start 'no-such-program': not found in PATH");
  launch.options.program = "/etc/passwd";
  CHECK(error_of_launch(launch, ErrorKind::Config) ==
        "cannot start '/etc/passwd': Permission denied");
}

TEST_CASE("launcher: numbers out of range are input errors") {
  ShellLaunch launch("");
  launch.options.num_workers = 0;
  CHECK(error_of_launch(launch, ErrorKind::Config) == "0 workers on a node: expected 1 to 1024");
  launch.options.num_workers = 1;
  launch.options.rendezvous.min_nodes = launch.options.rendezvous.max_nodes = 2;
  launch.options.rendezvous.node_rank = 2;
  CHECK(error_of_launch(launch, ErrorKind::Config) ==
        "node rank 2: expected 0 to 1, one less than the number of nodes");
}

TEST_CASE("launcher: a log directory that cannot be created is an environment error") {
  ShellLaunch launch("");
  launch.keep_logs_in("/proc/logs");
  CHECK(error_of_launch(launch, ErrorKind::Environment)
            .starts_with("cannot create directory /proc/logs"));
}

}  // namespace lockstep::launch
