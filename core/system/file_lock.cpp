#include "core/system/file_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/file.h>

#include <cerrno>

#include "lockstep/error.h"

namespace lockstep {
namespace {

// flock() of another host does not signal when it becomes free, so it is polled.
constexpr int kLockRetryMs = 5;

}  // namespace

FileDescriptor open_lock_file(const std::filesystem::path& path) {
  FileDescriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666));
  if (!file.is_open()) throw errno_error(fmt::format("cannot open {}", path.string()));
  return file;
}

FileLock::FileLock(const std::filesystem::path& path, Kind kind, std::chrono::milliseconds timeout)
    : file_(open_lock_file(path)) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  const int operation = (kind == Kind::Shared ? LOCK_SH : LOCK_EX) | LOCK_NB;
  while (::flock(file_.get(), operation) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR)
      throw errno_error(fmt::format("cannot lock {}", path.string()));
    if (std::chrono::steady_clock::now() >= deadline)
      throw environment_error(
          fmt::format("{} is still locked by another process after {} s; try again later",
                      path.string(), std::chrono::duration<double>(timeout).count()));
    ::poll(nullptr, 0, kLockRetryMs);
  }
}

}  // namespace lockstep
