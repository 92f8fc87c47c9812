#include "core/system/child_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "core/system/file_descriptor.h"
#include "core/system/poll_set.h"
#include "core/thread_limit.h"
#include "lockstep/error.h"

namespace lockstep {
namespace {

constexpr auto kStartTimeout = std::chrono::seconds(30);
constexpr int kReapTimeoutMs = 5'000;

// The inputs of the child, allocated before fork: between fork and exec, only async-signal-safe
// functions are allowed.
struct Start {
  const ChildCommand& command;
  std::vector<char*> argv, envp;
  pid_t launcher = ::getpid();
  int status_fd = -1;  // receives errno if exec fails; closed if it succeeds
};

[[noreturn]] void fail_in_child(int status_fd) {
  const int reason = errno;
  [[maybe_unused]] const auto written = ::write(status_fd, &reason, sizeof reason);
  ::_exit(127);
}

void reset_signals() {
  for (int signal = 1; signal < NSIG; ++signal) ::signal(signal, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

[[noreturn]] void run_child(const Start& start) {
  ::setpgid(0, 0);
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) fail_in_child(start.status_fd);
  if (::getppid() != start.launcher) ::_exit(127);  // the parent died before prctl: no signal
  reset_signals();
  const auto& command = start.command;
  const int null = ::open("/dev/null", O_RDWR);
  const int streams[] = {command.stdin_fd, command.stdout_fd, command.stderr_fd};
  for (int i = 0; i < 3; ++i)
    if (::dup2(streams[i] >= 0 ? streams[i] : null, i) < 0) fail_in_child(start.status_fd);
  if (null > STDERR_FILENO) ::close(null);
  if (!command.directory.empty() && ::chdir(command.directory.c_str()) != 0)
    fail_in_child(start.status_fd);
  constexpr unsigned kCloseOnExec = 1U << 2;
  if (command.closes_others) ::syscall(SYS_close_range, 3U, ~0U, kCloseOnExec);
  for (const int fd : command.inherited_fds) ::fcntl(fd, F_SETFD, 0);
  ::execvpe(start.argv[0], start.argv.data(), start.envp.data());
  fail_in_child(start.status_fd);
}

// Waits for the child's exec. Returns 0 if it succeeded, otherwise its errno.
int wait_for_exec(int status_fd) {
  pollfd request = {.fd = status_fd, .events = POLLIN, .revents = 0};
  if (poll_until({&request, 1}, std::chrono::steady_clock::now() + kStartTimeout) == 0)
    return ETIMEDOUT;
  int reason = 0;
  return ::read(status_fd, &reason, sizeof reason) == sizeof reason ? reason : 0;
}

std::string start_message(const std::string& program, int reason) {
  if (reason == ENOENT && program.find('/') == std::string::npos)
    return fmt::format("cannot start '{}': not found in PATH", program);
  auto text = fmt::format("cannot start '{}': {}", program, std::strerror(reason));
  return reason == EAGAIN ? text + "; " + describe_thread_limit() : text;
}

// A process that hangs in the kernel cannot be killed: after the timeout it is left to init.
void reap_killed(pid_t pid) {
  FileDescriptor handle(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  pollfd request = {.fd = handle.get(), .events = POLLIN, .revents = 0};
  if (handle.is_open()) ::poll(&request, 1, kReapTimeoutMs);
  ::waitpid(pid, nullptr, handle.is_open() ? WNOHANG : 0);
}

}  // namespace

std::vector<char*> pointers_to(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (const auto& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

ChildProcess::ChildProcess(const ChildCommand& command) {
  auto arguments = command.arguments;
  arguments.insert(arguments.begin(), command.program);
  Start start{
      .command = command, .argv = pointers_to(arguments), .envp = pointers_to(command.environment)};
  auto [read_end, write_end] = make_pipe();
  start.status_fd = write_end.get();
  pid_ = ::fork();
  if (pid_ < 0) throw environment_error(start_message(command.program, errno));
  if (pid_ == 0) run_child(start);
  ::setpgid(pid_, pid_);  // parent and child both call it to avoid a race
  write_end.close();
  const int reason = wait_for_exec(read_end.get());
  if (reason == 0) return;
  reap();
  const bool no_resources = reason == ENOMEM || reason == EAGAIN || reason == ETIMEDOUT;
  throw Error(no_resources ? ErrorKind::Environment : ErrorKind::Config,
              start_message(command.program, reason));
}

ChildProcess ChildProcess::adopt(pid_t pid) {
  ChildProcess process;
  process.pid_ = pid;
  ::setpgid(pid, pid);  // fails after its exec, before which it has called this itself
  return process;
}

ChildProcess::~ChildProcess() { reap(); }

ChildProcess::ChildProcess(ChildProcess&& other) noexcept : pid_(std::exchange(other.pid_, -1)) {}

void ChildProcess::signal_group(int signal) const {
  if (pid_ > 0) ::kill(-pid_, signal);
}

std::optional<ProcessExit> ChildProcess::poll_exit() const {
  siginfo_t info{};
  if (::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) != 0) {
    if (errno == EINTR) return std::nullopt;
    throw errno_error(fmt::format("cannot get the status of process {}", pid_));
  }
  if (info.si_pid == 0) return std::nullopt;
  if (info.si_code == CLD_EXITED) return ProcessExit{.code = info.si_status};
  return ProcessExit{.signal = info.si_status};
}

void ChildProcess::reap() {
  if (pid_ <= 0) return;
  signal_group(SIGKILL);
  reap_killed(pid_);
  pid_ = -1;
}

void ChildProcess::abandon() {
  if (pid_ <= 0) return;
  signal_group(SIGKILL);
  ::waitpid(pid_, nullptr, WNOHANG);
  pid_ = -1;
}

}  // namespace lockstep
