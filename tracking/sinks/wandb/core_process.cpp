#include "tracking/sinks/wandb/core_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <mutex>
#include <vector>

#include "core/error.h"
#include "core/system/durable_file.h"

namespace lockstep {
namespace {

using namespace std::chrono_literals;
constexpr auto kCoreStartTimeout = 15s;
constexpr auto kCoreKillTimeout = 5s;
constexpr auto kCoreLookEvery = 10ms;
constexpr const char* kCorePortFile = "port";

// What reaches W&B's program: where things are, and the way to the server.
constexpr std::array kCoreVariables = {"PATH",       "HOME",          "USER",         "LANG",
                                       "TZ",         "SSL_CERT_FILE", "SSL_CERT_DIR", "HTTP_PROXY",
                                       "NO_PROXY",   "http_proxy",    "HTTPS_PROXY",  "no_proxy",
                                       "https_proxy"};

std::vector<std::string> core_environment(const std::string& scratch,
                                          const Environment& environment) {
  // The socket's path has to be short, so that it is relative.
  // On large machines Go would collect its garbage with a quarter of all processors.
  std::vector<std::string> variables = {"TMPDIR=.", "GOMAXPROCS=2", "XDG_CACHE_HOME=" + scratch,
                                        "WANDB_CACHE_DIR=" + scratch, "WANDB_DATA_DIR=" + scratch};
  for (const auto* name : kCoreVariables)
    if (const auto value = environment(name))
      variables.push_back(fmt::format("{}={}", name, *value));
  return variables;
}

std::vector<char*> core_pointers(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (const auto& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

// Everything is made before the fork: between fork and exec only system calls are allowed.
struct CoreStart {
  const char* directory;
  std::vector<char*> argv, envp;
  pid_t parent = ::getpid();
  int status_fd = -1;  // gets errno when exec fails, is closed when it succeeds
};

[[noreturn]] void run_core(const CoreStart& start) {
  constexpr unsigned kCloseOnExec = 1U << 2;
  ::setpgid(0, 0);  // an interrupt from the terminal is not for it
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  const int null = ::open("/dev/null", O_RDWR);
  const bool is_ready = ::prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && ::getppid() == start.parent &&
                        null >= 0 && ::dup2(null, 0) >= 0 && ::dup2(null, 1) >= 0 &&
                        ::dup2(null, 2) >= 0 && ::chdir(start.directory) == 0;
  ::syscall(SYS_close_range, 3U, ~0U, kCloseOnExec);
  if (is_ready) ::execve(start.argv[0], start.argv.data(), start.envp.data());
  const int reason = errno;
  [[maybe_unused]] const auto written = ::write(start.status_fd, &reason, sizeof reason);
  ::_exit(127);
}

int remaining_ms(std::chrono::steady_clock::time_point deadline) {
  const auto left = deadline - std::chrono::steady_clock::now();
  return static_cast<int>(
      std::max(std::chrono::ceil<std::chrono::milliseconds>(left).count(), int64_t{0}));
}

// 0 when the child's exec succeeded, else its errno.
int core_exec_result(int status_fd) {
  pollfd request = {.fd = status_fd, .events = POLLIN, .revents = 0};
  const auto deadline = std::chrono::steady_clock::now() + kCoreStartTimeout;
  int ready = 0;
  while ((ready = ::poll(&request, 1, remaining_ms(deadline))) < 0 && errno == EINTR) {
  }
  int reason = 0;
  if (ready <= 0) return ETIMEDOUT;
  return ::read(status_fd, &reason, sizeof reason) == sizeof reason ? reason : 0;
}

}  // namespace

std::shared_ptr<CoreProcess> CoreProcess::shared(const std::filesystem::path& program,
                                                 std::filesystem::path scratch,
                                                 const Environment& environment) {
  static std::mutex mutex;
  static std::vector<std::weak_ptr<CoreProcess>> all;  // guarded by mutex
  const std::lock_guard lock(mutex);
  std::erase_if(all, [](const auto& process) { return process.expired(); });
  for (const auto& item : all) {
    const auto process = item.lock();
    if (process && process->is_trusted_ && process->program_ == program &&
        process->thread_ == std::this_thread::get_id() && !process->wait(0ms))
      return process;
  }
  auto process = std::make_shared<CoreProcess>(program, std::move(scratch), environment);
  all.push_back(process);
  return process;
}

CoreProcess::CoreProcess(const std::filesystem::path& program, std::filesystem::path scratch,
                         const Environment& environment)
    : scratch_(std::move(scratch)), program_(program) {
  std::error_code ignored;
  std::filesystem::remove_all(scratch_, ignored);  // of one that was killed
  make_directories(scratch_);
  try {
    start(program, environment);
    wait_for_address();
  } catch (...) {
    kill();
    throw;
  }
}

CoreProcess::~CoreProcess() { kill(); }

void CoreProcess::start(const std::filesystem::path& program, const Environment& environment) {
  const std::vector<std::string> arguments = {program.string(),  "--no-observability",
                                              "--port-filename", kCorePortFile,
                                              "--pid",           std::to_string(::getpid())};
  const auto directory = std::filesystem::absolute(scratch_).string();
  const auto variables = core_environment(directory, environment);
  CoreStart start{.directory = directory.c_str(),
                  .argv = core_pointers(arguments),
                  .envp = core_pointers(variables)};
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw errno_error("cannot create a pipe");
  FileDescriptor read_end(ends[0]), write_end(ends[1]);
  start.status_fd = write_end.get();
  pid_ = ::fork();
  if (pid_ == 0) run_core(start);
  if (pid_ < 0) throw errno_error(fmt::format("cannot start {}", program.string()));
  ::setpgid(pid_, pid_);  // both sides do it: whoever comes first
  write_end.close();
  handle_ = FileDescriptor(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
  if (!handle_.is_open()) throw errno_error("cannot watch wandb-core");
  const int reason = core_exec_result(read_end.get());
  if (reason == 0) return;
  const bool no_room = reason == ENOMEM || reason == EAGAIN || reason == ETIMEDOUT;
  throw Error(no_room ? ErrorKind::Environment : ErrorKind::Config,
              fmt::format("cannot start {}: {}", program.string(), std::strerror(reason)));
}

// It writes the file under another name and renames it, and ends it with "EOF".
void CoreProcess::wait_for_address() {
  const auto deadline = std::chrono::steady_clock::now() + kCoreStartTimeout;
  std::error_code ignored;
  while (!std::filesystem::exists(scratch_ / kCorePortFile, ignored)) {
    if (wait(kCoreLookEvery)) throw environment_error("wandb-core ended when it was started");
    if (std::chrono::steady_clock::now() > deadline)
      throw environment_error(
          fmt::format("wandb-core did not listen within {} s", kCoreStartTimeout.count()));
  }
  const auto text = read_file(scratch_ / kCorePortFile, 4096);
  address_ = text.substr(0, text.find('\n'));
  if (!address_.starts_with("unix=") && !address_.starts_with("sock="))
    throw environment_error("wandb-core does not say where it listens: another version may help");
}

bool CoreProcess::wait(std::chrono::milliseconds timeout) const {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  pollfd request = {.fd = handle_.get(), .events = POLLIN, .revents = 0};
  int ready = 0;
  while ((ready = ::poll(&request, 1, remaining_ms(deadline))) < 0 && errno == EINTR) {
  }
  return ready > 0;
}

// One that hangs in the kernel cannot be killed now: after the timeout it is left to init.
void CoreProcess::kill() {
  if (pid_ > 0) {
    ::kill(-pid_, SIGKILL);
    const bool is_watched = handle_.is_open();
    if (is_watched) wait(kCoreKillTimeout);
    ::waitpid(pid_, nullptr, is_watched ? WNOHANG : 0);
    pid_ = -1;
  }
  std::error_code ignored;
  const std::string_view path =
      std::string_view(address_).substr(std::min<size_t>(5, address_.size()));
  // Where the scratch directory cannot hold a socket, wandb-core makes
  // /tmp/wandb-PID-PID-RANDOM/socket.
  if (path.starts_with("/tmp/wandb-") && path.ends_with("/socket"))
    std::filesystem::remove_all(std::filesystem::path(path).parent_path(), ignored);
  std::filesystem::remove_all(scratch_, ignored);
}

}  // namespace lockstep
