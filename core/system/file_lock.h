// A lock across processes and hosts: flock() on a dedicated file, which is not removed.
#pragma once

#include <chrono>
#include <filesystem>

#include "core/system/file_descriptor.h"

namespace lockstep {

// Creates the file if needed. Throws Environment.
FileDescriptor open_lock_file(const std::filesystem::path& path);

class FileLock {
 public:
  enum class Kind { Shared, Exclusive };

  // Waits until the lock is free; creates the file if needed. Throws Environment after `timeout`,
  // or if the file cannot be created.
  FileLock(const std::filesystem::path& path, Kind kind, std::chrono::milliseconds timeout);

 private:
  FileDescriptor file_;
};

}  // namespace lockstep
