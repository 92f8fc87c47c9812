#include "tracking/agent/agent_turn.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/file.h>

#include <cerrno>

#include "core/system/durable_file.h"
#include "lockstep/error.h"
#include "tracking/log/event_log_reader.h"
#include "tracking/runs/run_directory.h"

namespace lockstep::tracking {
namespace {

constexpr int kLookEveryMs = 200, kLookForEndEveryMs = 50;

std::filesystem::path lock_path(const std::filesystem::path& run_dir, int node_rank) {
  return sinks_path(run_dir) / fmt::format("agent-{:05}.lock", node_rank);
}

// Held by an agent that waits for its turn.
std::filesystem::path waiting_path(const std::filesystem::path& run_dir, int node_rank) {
  return sinks_path(run_dir) / fmt::format("agent-{:05}.next", node_rank);
}

FileDescriptor open_lock(const std::filesystem::path& path) {
  FileDescriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (!file.is_open()) throw errno_error(fmt::format("cannot open {}", path.string()));
  return file;
}

}  // namespace

std::optional<FileDescriptor> take_agent_turn(const std::filesystem::path& run_dir, int node_rank,
                                              int starter_fd) {
  make_directories(sinks_path(run_dir));
  const auto path = lock_path(run_dir, node_rank);
  auto file = open_lock(path);
  const auto waits = open_lock(waiting_path(run_dir, node_rank));
  while (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR)
      throw errno_error(fmt::format("cannot lock {}", path.string()));
    ::flock(waits.get(), LOCK_EX | LOCK_NB);
    pollfd starter{.fd = starter_fd, .events = POLLIN, .revents = 0};
    const auto gone = ::poll(&starter, 1, kLookEveryMs);
    if (gone > 0 || starter_fd < 0) return std::nullopt;
  }
  return file;
}

bool is_agent_waiting(const std::filesystem::path& run_dir, int node_rank) {
  return has_writer(waiting_path(run_dir, node_rank));
}

bool wait_for_agent(const std::filesystem::path& run_dir, int node_rank,
                    std::chrono::milliseconds timeout) {
  const auto latest = std::chrono::steady_clock::now() + timeout;
  while (has_writer(lock_path(run_dir, node_rank))) {
    if (std::chrono::steady_clock::now() >= latest) return false;
    ::poll(nullptr, 0, kLookForEndEveryMs);
  }
  return true;
}

}  // namespace lockstep::tracking
