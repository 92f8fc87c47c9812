#include "tracking/agent/agent_lock.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/file.h>

#include <cerrno>

#include "core/system/durable_file.h"
#include "core/system/file_lock.h"
#include "lockstep/error.h"
#include "tracking/log/event_log_reader.h"
#include "tracking/runs/run_directory.h"

namespace lockstep::tracking {
namespace {

constexpr int kAcquirePollMs = 200, kWaitPollMs = 50;
constexpr std::chrono::seconds kMaxHandOver{30};

std::filesystem::path lock_path(const std::filesystem::path& run_dir, int node_rank) {
  return sinks_path(run_dir) / fmt::format("agent-{:05}.lock", node_rank);
}

// Locked by an agent that waits for the lock.
std::filesystem::path waiting_path(const std::filesystem::path& run_dir, int node_rank) {
  return sinks_path(run_dir) / fmt::format("agent-{:05}.next", node_rank);
}

}  // namespace

std::optional<FileDescriptor> acquire_agent_lock(const std::filesystem::path& run_dir,
                                                 int node_rank, int parent_fd) {
  make_directories(sinks_path(run_dir));
  const auto path = lock_path(run_dir, node_rank);
  auto file = open_lock_file(path);
  const auto waiting = open_lock_file(waiting_path(run_dir, node_rank));
  std::optional<std::chrono::steady_clock::time_point> alone_since;  // without a parent
  while (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR)
      throw errno_error(fmt::format("cannot lock {}", path.string()));
    if (parent_fd < 0) return std::nullopt;
    ::flock(waiting.get(), LOCK_EX | LOCK_NB);
    pollfd parent{.fd = alone_since ? -1 : parent_fd, .events = POLLIN, .revents = 0};
    const auto now = std::chrono::steady_clock::now();
    if (::poll(&parent, 1, kAcquirePollMs) > 0) alone_since = now;
    if (alone_since && now - *alone_since >= kMaxHandOver) return std::nullopt;
  }
  return file;
}

bool is_agent_waiting(const std::filesystem::path& run_dir, int node_rank) {
  return has_writer(waiting_path(run_dir, node_rank));
}

bool wait_for_agent(const std::filesystem::path& run_dir, int node_rank,
                    std::chrono::milliseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (has_writer(lock_path(run_dir, node_rank))) {
    if (std::chrono::steady_clock::now() >= deadline) return false;
    ::poll(nullptr, 0, kWaitPollMs);
  }
  return true;
}

}  // namespace lockstep::tracking
