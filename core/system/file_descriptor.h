// RAII wrapper of a POSIX file descriptor, and pipes.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <utility>

#include "lockstep/error.h"

namespace lockstep {

class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  ~FileDescriptor() { close(); }

  int get() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }
  int release() { return std::exchange(fd_, -1); }
  void close() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }

 private:
  int fd_ = -1;
};

struct Pipe {
  FileDescriptor read_end, write_end;
};

// Closed by exec. Throws Environment.
inline Pipe make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw errno_error("cannot create a pipe");
  return {FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

// Reads and writes no longer wait. Throws Environment.
inline void unblock(const FileDescriptor& end) {
  if (::fcntl(end.get(), F_SETFL, O_NONBLOCK) != 0) throw errno_error("cannot set up a pipe");
}

}  // namespace lockstep
