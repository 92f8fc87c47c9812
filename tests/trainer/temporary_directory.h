// A directory that is gone when the test is.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <string>

namespace lockstep {

class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string path =
        (std::filesystem::temp_directory_path() / "lockstep-trainer-XXXXXX").string();
    path_ = ::mkdtemp(path.data());
  }
  ~TemporaryDirectory() { std::filesystem::remove_all(path_); }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

}  // namespace lockstep
