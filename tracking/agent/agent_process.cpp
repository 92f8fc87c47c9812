#include "tracking/agent/agent_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <vector>

#include "core/system/child_process.h"
#include "core/system/durable_file.h"
#include "core/system/file_descriptor.h"
#include "lockstep/error.h"
#include "tracking/runs/run_directory.h"

namespace lockstep::tracking {
namespace {

// The descriptors that the child inherits; all others are closed. `listener`: the socket for the
// logs of other nodes; may be null.
class SpawnFiles {
 public:
  SpawnFiles(int input, const std::string& output, const FileDescriptor* listener) {
    ::posix_spawn_file_actions_init(&actions_);
    ::posix_spawn_file_actions_adddup2(&actions_, input, STDIN_FILENO);
    ::posix_spawn_file_actions_addopen(&actions_, STDOUT_FILENO, output.c_str(),
                                       O_WRONLY | O_CREAT | O_APPEND, 0644);
    ::posix_spawn_file_actions_adddup2(&actions_, STDOUT_FILENO, STDERR_FILENO);
    if (listener)
      ::posix_spawn_file_actions_adddup2(&actions_, listener->get(), kForwardingListener);
    ::posix_spawn_file_actions_addclosefrom_np(
        &actions_, listener ? kForwardingListener + 1 : STDERR_FILENO + 1);
  }
  ~SpawnFiles() { ::posix_spawn_file_actions_destroy(&actions_); }
  SpawnFiles(const SpawnFiles&) = delete;
  SpawnFiles& operator=(const SpawnFiles&) = delete;
  const posix_spawn_file_actions_t* get() const { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_{};
};

// A new session and default signal handling: a signal to the ranks does not reach the agent.
class SpawnAttributes {
 public:
  SpawnAttributes() {
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    ::posix_spawnattr_init(&attributes_);
    ::posix_spawnattr_setsigmask(&attributes_, &none);
    ::posix_spawnattr_setsigdefault(&attributes_, &all);
    ::posix_spawnattr_setflags(
        &attributes_,
        static_cast<short>(POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF));
  }
  ~SpawnAttributes() { ::posix_spawnattr_destroy(&attributes_); }
  SpawnAttributes(const SpawnAttributes&) = delete;
  SpawnAttributes& operator=(const SpawnAttributes&) = delete;
  const posix_spawnattr_t* get() const { return &attributes_; }

 private:
  posix_spawnattr_t attributes_{};
};

std::vector<std::string> inherited_environment() {
  std::vector<std::string> variables;
  for (char** variable = environ; *variable; ++variable) variables.emplace_back(*variable);
  return variables;
}

}  // namespace

AgentProcess::AgentProcess(AgentCommand command) : command_(std::move(command)) { start(); }

AgentProcess::~AgentProcess() { has_exited(); }

void AgentProcess::start() {
  --starts_left_;
  make_directories(sinks_path(command_.run_dir));
  const auto output =
      (sinks_path(command_.run_dir) / fmt::format("agent-{:05}.log", command_.node_rank)).string();
  auto [read_end, write_end] = make_pipe();
  pipe_ = std::move(write_end);
  std::vector<std::string> args = {command_.program.string(),
                                   "track",
                                   command_.run_dir.string(),
                                   "--node-rank",
                                   std::to_string(command_.node_rank),
                                   "--logs",
                                   std::to_string(command_.expected_logs),
                                   "--attached"};
  for (const auto pid : command_.pids) args.push_back(fmt::format("--pid={}", pid));
  if (command_.launcher > 0) args.push_back(fmt::format("--launcher={}", command_.launcher));
  const auto& forwarding = command_.forwarding;
  if (forwarding.may_move) args.push_back("--logs-may-move");
  if (forwarding.sends()) args.push_back("--forward-to=" + forwarding.to);
  for (const int node : forwarding.from_nodes)
    args.push_back(fmt::format("--receive-from={}", node));
  if (forwarding.receives()) args.push_back(fmt::format("--receive-logs={}", forwarding.num_logs));
  auto argv = pointers_to(args);
  auto variables = inherited_environment();
  if (!forwarding.token.empty())
    variables.push_back(fmt::format("{}={}", kForwardingTokenVariable, forwarding.token));
  auto envp = pointers_to(variables);
  const SpawnFiles files(read_end.get(), output, forwarding.listener.get());
  const SpawnAttributes attributes;
  const int reason =
      ::posix_spawn(&pid_, argv[0], files.get(), attributes.get(), argv.data(), envp.data());
  if (reason == 0) return;
  pid_ = -1;
  throw environment_error(
      fmt::format("cannot start the tracking agent '{}': {}", argv[0], std::strerror(reason)));
}

bool AgentProcess::has_exited() {
  if (pid_ < 0) return true;
  const auto reaped = ::waitpid(pid_, nullptr, WNOHANG);
  if (reaped == 0 || (reaped < 0 && errno == EINTR)) return false;
  pid_ = -1;
  return true;
}

void AgentProcess::keep_alive() {
  if (has_exited() && starts_left_ > 0) start();
}

bool AgentProcess::finish(std::chrono::milliseconds timeout) {
  if (has_exited() && starts_left_ > 0) start();
  pipe_.close();
  if (pid_ < 0) return true;
  const FileDescriptor handle(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
  if (!handle.is_open()) return has_exited();
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  for (auto left = timeout; left.count() > 0;
       left = std::chrono::duration_cast<std::chrono::milliseconds>(
           deadline - std::chrono::steady_clock::now())) {
    pollfd exited{.fd = handle.get(), .events = POLLIN};
    if (::poll(&exited, 1, static_cast<int>(left.count())) != 0 && has_exited()) return true;
  }
  return has_exited();
}

}  // namespace lockstep::tracking
