// An in-memory file with a path, which a fuzz target can write thousands of times per second.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>

#include "core/system/file_descriptor.h"

namespace lockstep {

class MemoryFile {
 public:
  MemoryFile() : fd_(::memfd_create("fuzz", MFD_CLOEXEC)) {
    if (!fd_.is_open()) throw std::runtime_error("cannot create an in-memory file");
  }

  // Replaces the content.
  void write(std::string_view content) {
    const bool written =
        ::ftruncate(fd_.get(), 0) == 0 && ::pwrite(fd_.get(), content.data(), content.size(), 0) ==
                                              static_cast<ssize_t>(content.size());
    if (!written) throw std::runtime_error("cannot write an in-memory file");
  }

  std::filesystem::path path() const { return "/proc/self/fd/" + std::to_string(fd_.get()); }

 private:
  FileDescriptor fd_;
};

}  // namespace lockstep
