// A file that grows by writing into mapped memory: appending is a copy, and what was copied is in
// the kernel's hands, so that it survives a SIGKILL of the process (not a power cut: see close()).
// Invariant: memory is touched only after the file system reserved the blocks behind it; a full
// disk is therefore a failure of reserve(), never a SIGBUS. The reserved rest reads as zeros until
// the file is cut in close(). Thread: one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

#include "core/system/file_descriptor.h"

namespace lockstep::tracking {

class MappedAppend {
 public:
  // `file`: open for reading and writing; `length`: its bytes that are kept. `path` is for
  // messages.
  MappedAppend(FileDescriptor file, uint64_t length, const std::filesystem::path& path);
  ~MappedAppend();
  MappedAppend(MappedAppend&&) = delete;

  // Room for `size` bytes at the end of the file, to be filled before commit(), and for `spare`
  // bytes behind them. nullptr when the disk does not have them: failure() then says why. A later
  // call tries again.
  std::byte* reserve(size_t size, size_t spare = 0);
  // Makes the first `size` bytes of the last reserve() part of the file.
  void commit(size_t size) { length_ += size; }

  uint64_t length() const { return length_; }
  // Of the last reserve(); empty when there was room.
  const std::string& failure() const { return failure_; }
  bool is_open() const { return file_.is_open(); }

  // Cuts the file to its length and gives it up, also its lock. `durable`: syncs it to the disk
  // first.
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
  uint64_t piece_;  // what is reserved next
  std::string failure_;
};

}  // namespace lockstep::tracking
