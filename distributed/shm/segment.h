// Shared memory between processes of one host: an anonymous file (memfd). It has no name, and the
// kernel frees it when the last process that holds it exits or is killed.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string>

#include "core/system/file_descriptor.h"

namespace lockstep::distributed::shm {

class Segment {
 public:
  // Creates a segment of `bytes` zero bytes. Throws Environment when memory is insufficient.
  static Segment create(size_t bytes);

  // Like create(), without reserving memory: call reserve() for a range before using it.
  static Segment create_sparse(size_t bytes);

  // Maps the segment behind descriptor `fd` of process `pid`. Throws Environment: no such process
  // on this host, permission denied, or the size differs.
  static Segment open(pid_t pid, int fd, size_t bytes);

  Segment() = default;  // empty
  Segment(Segment&& other) noexcept;
  Segment& operator=(Segment&& other) noexcept;
  ~Segment();

  // Reserves the memory of a range, which counts as this process's (its control group's). Throws
  // Environment when memory is insufficient. Call before close_file().
  void reserve(size_t begin, size_t bytes) const;

  // Faults in all pages, so that the first use does not wait for the kernel.
  void prefault() const;

  std::byte* data() const { return data_; }
  size_t bytes() const { return bytes_; }

  // For open() in other processes and reserve(), until close_file(), which keeps the mapping.
  int fd() const { return file_.get(); }
  void close_file() { file_.close(); }

 private:
  Segment(FileDescriptor file, size_t bytes);

  FileDescriptor file_;
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
};

// Equal for processes that can share segments: same kernel boot, same PID namespace. Empty if
// unknown.
std::string host_identity();

}  // namespace lockstep::distributed::shm
