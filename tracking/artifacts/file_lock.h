// A lock that processes, also of several hosts, agree on: flock() on a file of its own, which
// stays.
#pragma once

#include <chrono>
#include <filesystem>

#include "core/system/file_descriptor.h"

namespace lockstep::tracking {

class FileLock {
 public:
  enum class Kind { Shared, Exclusive };

  // Waits until the lock is free, and makes the file where there is none. Throws Environment when
  // that takes longer than `timeout`, or the file cannot be made.
  FileLock(const std::filesystem::path& path, Kind kind, std::chrono::milliseconds timeout);

 private:
  FileDescriptor file_;
};

}  // namespace lockstep::tracking
