#include "tracking/sinks/wandb/core_process.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <vector>

#include "core/system/durable_file.h"
#include "core/system/mutex.h"
#include "core/system/poll_set.h"
#include "lockstep/error.h"

namespace lockstep::tracking {
namespace {

using namespace std::chrono_literals;
constexpr auto kCoreStartTimeout = 15s;
constexpr auto kCorePollInterval = 10ms;
constexpr const char* kCorePortFile = "port";

// Environment variables passed to wandb-core: paths, and access to the server.
constexpr std::array kCoreVariables = {"PATH",       "HOME",          "USER",         "LANG",
                                       "TZ",         "SSL_CERT_FILE", "SSL_CERT_DIR", "HTTP_PROXY",
                                       "NO_PROXY",   "http_proxy",    "HTTPS_PROXY",  "no_proxy",
                                       "https_proxy"};

std::vector<std::string> core_environment(const std::string& scratch,
                                          const Environment& environment) {
  // TMPDIR is relative to keep the path of the socket short. GOMAXPROCS limits Go's garbage
  // collector, which otherwise uses a quarter of all processors.
  std::vector<std::string> variables = {"TMPDIR=.", "GOMAXPROCS=2", "XDG_CACHE_HOME=" + scratch,
                                        "WANDB_CACHE_DIR=" + scratch, "WANDB_DATA_DIR=" + scratch};
  for (const auto* name : kCoreVariables)
    if (const auto value = environment(name))
      variables.push_back(fmt::format("{}={}", name, *value));
  return variables;
}

}  // namespace

std::shared_ptr<CoreProcess> CoreProcess::shared(const std::filesystem::path& program,
                                                 std::filesystem::path scratch,
                                                 const Environment& environment) {
  static Mutex mutex;
  static std::vector<std::weak_ptr<CoreProcess>> all GUARDED_BY(mutex);
  const MutexLock lock(mutex);
  std::erase_if(all, [](const auto& process) { return process.expired(); });
  for (const auto& item : all) {
    const auto process = item.lock();
    if (process && !process->has_failed_ && process->program_ == program &&
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
  std::filesystem::remove_all(scratch_, ignored);  // left by a killed process
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
  const auto directory = std::filesystem::absolute(scratch_).string();
  process_.emplace(ChildCommand{.program = program.string(),
                                .arguments = {"--no-observability", "--port-filename",
                                              kCorePortFile, "--pid", std::to_string(::getpid())},
                                .environment = core_environment(directory, environment),
                                .closes_others = true,
                                .directory = directory});
  handle_ = FileDescriptor(static_cast<int>(::syscall(SYS_pidfd_open, process_->pid(), 0)));
  if (!handle_.is_open()) throw errno_error("cannot watch wandb-core");
}

// wandb-core creates the port file by renaming a complete one.
void CoreProcess::wait_for_address() {
  const auto deadline = std::chrono::steady_clock::now() + kCoreStartTimeout;
  std::error_code ignored;
  while (!std::filesystem::exists(scratch_ / kCorePortFile, ignored)) {
    if (wait(kCorePollInterval)) throw environment_error("wandb-core exited during startup");
    if (std::chrono::steady_clock::now() > deadline)
      throw environment_error(
          fmt::format("wandb-core did not listen within {} s", kCoreStartTimeout.count()));
  }
  const auto text = read_file(scratch_ / kCorePortFile, 4096);
  address_ = text.substr(0, text.find('\n'));
  if (!address_.starts_with("unix=") && !address_.starts_with("sock="))
    throw environment_error("wandb-core reported no listening address; try another version");
}

bool CoreProcess::wait(std::chrono::milliseconds timeout) const {
  pollfd request = {.fd = handle_.get(), .events = POLLIN, .revents = 0};
  return poll_until({&request, 1}, std::chrono::steady_clock::now() + timeout) > 0;
}

void CoreProcess::kill() {
  process_.reset();
  std::error_code ignored;
  const std::string_view path =
      std::string_view(address_).substr(std::min<size_t>(5, address_.size()));
  // If the scratch directory cannot hold a socket, wandb-core creates
  // /tmp/wandb-PID-PID-RANDOM/socket.
  if (path.starts_with("/tmp/wandb-") && path.ends_with("/socket"))
    std::filesystem::remove_all(std::filesystem::path(path).parent_path(), ignored);
  std::filesystem::remove_all(scratch_, ignored);
}

}  // namespace lockstep::tracking
