// Where the values of opened runs are kept column by column: one temporary file without a name, so
// that the memory of the dashboard does not grow with what it shows, and nothing is left behind.
// What is in it can always be read from the event logs again.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "core/system/file_descriptor.h"
#include "core/system/mutex.h"

namespace lockstep::catalog {

// Thread: any.
class ColumnSpool {
 public:
  // The file is made in the first of `directories` that takes one. Throws Environment when none
  // does.
  explicit ColumnSpool(const std::vector<std::filesystem::path>& directories);

  // Appends bytes; returns where they are. Throws Environment (full disk).
  uint64_t append(std::span<const std::byte> bytes);
  // Throws Environment.
  void read(uint64_t offset, std::span<std::byte> bytes) const;
  // Gives the space back to the disk.
  void release(uint64_t offset, uint64_t num_bytes);

  // Bytes in use.
  uint64_t size() const;

 private:
  FileDescriptor file_;
  mutable Mutex mutex_;
  uint64_t end_ GUARDED_BY(mutex_) = 0, used_ GUARDED_BY(mutex_) = 0;
};

}  // namespace lockstep::catalog
