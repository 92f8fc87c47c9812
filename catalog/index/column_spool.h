// Stores the values of opened runs by column in one unlinked temporary file, so that the memory of
// the dashboard does not grow with the data it shows and no file is left. The content can always be
// read from the event logs again.
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
  // Creates the file in the first writable one of `directories`. Throws Environment if none is.
  explicit ColumnSpool(const std::vector<std::filesystem::path>& directories);

  // Appends bytes and returns their offset. Throws Environment (full disk).
  uint64_t append(std::span<const std::byte> bytes);
  // Throws Environment.
  void read(uint64_t offset, std::span<std::byte> bytes) const;
  // Releases the disk space.
  void release(uint64_t offset, uint64_t num_bytes);

  // Bytes in use.
  uint64_t size() const;

 private:
  FileDescriptor file_;
  mutable Mutex mutex_;
  uint64_t end_ GUARDED_BY(mutex_) = 0, used_ GUARDED_BY(mutex_) = 0;
};

}  // namespace lockstep::catalog
