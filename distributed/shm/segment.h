// Memory that several processes of one host share: an anonymous file (memfd), which has no name
// anywhere and goes away with the last process that holds it, however that process ends.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string>

#include "core/system/file_descriptor.h"

namespace lockstep::distributed::shm {

class Segment {
 public:
  // `bytes` zeroes. Throws Environment when the memory is not there.
  static Segment create(size_t bytes);

  // The segment that descriptor `fd` of process `pid` stands for. Throws Environment: no such
  // process here, not ours to look at, or another size.
  static Segment open(pid_t pid, int fd, size_t bytes);

  Segment() = default;  // nothing
  Segment(Segment&& other) noexcept;
  Segment& operator=(Segment&& other) noexcept;
  ~Segment();

  // So that nobody has to wait for the kernel when the pages are used first.
  void touch_all() const;

  std::byte* data() const { return data_; }
  size_t bytes() const { return bytes_; }

  // For open() in other processes, until close_file(). The mapping stays.
  int fd() const { return file_.get(); }
  void close_file() { file_.close(); }

 private:
  Segment(FileDescriptor file, size_t bytes);

  FileDescriptor file_;
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
};

// Equal for processes that can share segments: one boot of one kernel, one process namespace. Empty
// where that cannot be known.
std::string host_identity();

}  // namespace lockstep::distributed::shm
