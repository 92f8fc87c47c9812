#include "distributed/backends/group_sockets.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <filesystem>
#include <vector>

#include "core/number_text.h"
#include "core/system/file_descriptor.h"

namespace lockstep::distributed {
namespace {

struct InternetSocket {
  FileDescriptor fd;  // a duplicate: the original may be closed by another thread
  ino_t id = 0;
};

// Gloo's thread does not expect errors of the socket on which it listens.
bool is_listening(const FileDescriptor& socket) {
  int listens = 0;
  socklen_t size = sizeof listens;
  return ::getsockopt(socket.get(), SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) == 0 &&
         listens != 0;
}

// Those that are connected.
std::vector<InternetSocket> internet_sockets() {
  std::vector<InternetSocket> sockets;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", error)) {
    const auto number = parse_number<int>(entry.path().filename().string());
    if (!number) continue;
    FileDescriptor fd(::fcntl(*number, F_DUPFD_CLOEXEC, 0));
    struct stat status {};
    sockaddr_storage address{};
    socklen_t size = sizeof address;
    if (!fd.is_open() || ::fstat(fd.get(), &status) != 0 || !S_ISSOCK(status.st_mode) ||
        ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0 ||
        (address.ss_family != AF_INET && address.ss_family != AF_INET6) || is_listening(fd))
      continue;
    sockets.push_back({std::move(fd), status.st_ino});
  }
  return sockets;
}

}  // namespace

void GroupSockets::begin() {
  const MutexLock lock(mutex_);
  earlier_.clear();
  own_.clear();
  for (const auto& socket : internet_sockets()) earlier_.insert(socket.id);
  is_opening_ = true;
}

void GroupSockets::end() {
  const MutexLock lock(mutex_);
  is_opening_ = false;
  for (const auto& socket : internet_sockets())
    if (!earlier_.contains(socket.id)) own_.insert(socket.id);
}

void GroupSockets::forget() {
  const MutexLock lock(mutex_);
  is_opening_ = false;
  own_.clear();
}

void GroupSockets::shut_down() {
  const MutexLock lock(mutex_);
  for (const auto& socket : internet_sockets())
    if (own_.contains(socket.id) || (is_opening_ && !earlier_.contains(socket.id)))
      ::shutdown(socket.fd.get(), SHUT_RDWR);
}

}  // namespace lockstep::distributed
