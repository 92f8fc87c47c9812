#include "distributed/backends/group_sockets.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/number_text.h"
#include "core/system/file_descriptor.h"

namespace lockstep::distributed {
namespace {

struct OpenSocket {
  int number = 0;
  ino_t id = 0;
};

// The inode of "socket:[1234]"; nullopt for other files.
std::optional<ino_t> id_of_socket(const std::string& target) {
  const std::string begin = "socket:[";
  if (!target.starts_with(begin) || !target.ends_with(']')) return std::nullopt;
  return parse_number<ino_t>(target.substr(begin.size(), target.size() - begin.size() - 1));
}

// Sockets of any kind.
std::vector<OpenSocket> open_sockets() {
  namespace fs = std::filesystem;
  std::vector<OpenSocket> sockets;
  std::error_code error;
  for (fs::directory_iterator it("/proc/self/fd", error), end; !error && it != end;
       it.increment(error)) {
    std::error_code closed;  // meanwhile
    const auto number = parse_number<int>(it->path().filename().string());
    const auto id = id_of_socket(fs::read_symlink(it->path(), closed).string());
    if (number && id) sockets.push_back({*number, *id});
  }
  return sockets;
}

// Gloo's thread does not expect errors of the socket on which it listens.
bool is_listening(int fd) {
  int listens = 0;
  socklen_t size = sizeof listens;
  return ::getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) == 0 && listens != 0;
}

void shut_down_connection(const OpenSocket& socket) {
  // A duplicate: the original may be closed by another thread, and its number be used again.
  const FileDescriptor fd(::fcntl(socket.number, F_DUPFD_CLOEXEC, 0));
  struct stat status {};
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (!fd.is_open() || ::fstat(fd.get(), &status) != 0 || status.st_ino != socket.id ||
      ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0 ||
      (address.ss_family != AF_INET && address.ss_family != AF_INET6) || is_listening(fd.get()))
    return;
  ::shutdown(fd.get(), SHUT_RDWR);
}

}  // namespace

void GroupSockets::begin() {
  const MutexLock lock(mutex_);
  earlier_.clear();
  own_.clear();
  for (const auto& socket : open_sockets()) earlier_.insert(socket.id);
  is_opening_ = true;
}

void GroupSockets::end() {
  const MutexLock lock(mutex_);
  is_opening_ = false;
  for (const auto& socket : open_sockets())
    if (!earlier_.contains(socket.id)) own_.insert(socket.id);
}

void GroupSockets::forget() {
  const MutexLock lock(mutex_);
  is_opening_ = false;
  own_.clear();
  num_shut_downs_ = 0;
}

int GroupSockets::shut_down() {
  const MutexLock lock(mutex_);
  for (const auto& socket : open_sockets())
    if (own_.contains(socket.id) || (is_opening_ && !earlier_.contains(socket.id)))
      shut_down_connection(socket);
  return ++num_shut_downs_;
}

int GroupSockets::num_shut_downs() {
  const MutexLock lock(mutex_);
  return num_shut_downs_;
}

}  // namespace lockstep::distributed
