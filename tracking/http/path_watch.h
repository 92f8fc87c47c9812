// Notices that a file is no longer where it was opened: somebody deleted or moved it, or a
// directory above it, while it is written.
#pragma once

#include <filesystem>
#include <string>

#include "core/system/file_descriptor.h"

namespace lockstep::tracking {

class PathWatch {
 public:
  // `path` exists; else there is nothing to notice.
  explicit PathWatch(std::filesystem::path path);

  // "was deleted" or "was moved to /new/place"; empty while the file is where it was, or where that
  // cannot be told.
  std::string problem() const;

 private:
  std::filesystem::path path_;
  FileDescriptor file_;
};

}  // namespace lockstep::tracking
