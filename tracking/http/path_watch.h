// Detects that an open file, or a directory above it, was deleted or moved.
#pragma once

#include <filesystem>
#include <string>

#include "core/system/file_descriptor.h"

namespace lockstep::tracking {

class PathWatch {
 public:
  // `path` should exist; otherwise no problem is ever detected.
  explicit PathWatch(std::filesystem::path path);

  // "was deleted" or "was moved to /new/place"; empty if the file is in its place, or if this
  // cannot be determined.
  std::string problem() const;

 private:
  std::filesystem::path path_;
  FileDescriptor file_;
};

}  // namespace lockstep::tracking
