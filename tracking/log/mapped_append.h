// A file that grows by writing to mapped memory: an append is a copy, and copied bytes are in the
// page cache, so they survive a SIGKILL of the process (for a power failure, see close()).
// Invariant: memory is written only after the file system reserved its blocks, so a full disk is a
// failure of reserve(), never a SIGBUS. The reserved rest reads as zeros until close() truncates
// the file. Thread: one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

#include "core/system/file_descriptor.h"

namespace lockstep::tracking {

class MappedAppend {
 public:
  // `file`: open for reading and writing. `length`: bytes to keep. `path`: for messages.
  MappedAppend(FileDescriptor file, uint64_t length, const std::filesystem::path& path);
  ~MappedAppend();
  MappedAppend(MappedAppend&&) = delete;

  // Space for `size` bytes at the end of the file, to be filled before commit(), and for `spare`
  // bytes after them. nullptr if the disk is full; failure() then gives the reason. A later call
  // tries again.
  std::byte* reserve(size_t size, size_t spare = 0);
  // Appends the first `size` bytes of the last reserve() to the file.
  void commit(size_t size) { length_ += size; }

  uint64_t length() const { return length_; }
  // Of the last reserve(); empty if it succeeded.
  const std::string& failure() const { return failure_; }
  bool is_open() const { return file_.is_open(); }

  // Truncates the file to its length and closes it, which releases its lock. `durable`: syncs it to
  // disk first.
  void close(bool durable) noexcept;

 private:
  bool grow(size_t size);
  bool allocate(uint64_t end);
  bool map(uint64_t end);
  void unmap() noexcept;

  FileDescriptor file_;
  std::filesystem::path path_;
  uint64_t length_;
  uint64_t window_begin_ = 0, window_end_ = 0;  // the mapped part of the file
  std::byte* window_ = nullptr;
  uint64_t next_size_;  // of the next reservation
  std::string failure_;
};

}  // namespace lockstep::tracking
