#include "tracking/http/path_watch.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>

namespace lockstep::tracking {

PathWatch::PathWatch(std::filesystem::path path)
    : path_(std::move(path)), file_(::open(path_.c_str(), O_PATH | O_CLOEXEC)) {}

std::string PathWatch::problem() const {
  struct stat own {};
  struct stat there {};
  if (!file_.is_open() || ::fstat(file_.get(), &own) != 0) return "";
  if (::stat(path_.c_str(), &there) == 0) {
    if (own.st_dev == there.st_dev && own.st_ino == there.st_ino) return "";
  } else if (errno != ENOENT && errno != ENOTDIR) {
    return "";
  }
  std::error_code error;
  const auto now =
      std::filesystem::read_symlink(fmt::format("/proc/self/fd/{}", file_.get()), error);
  if (own.st_nlink == 0 || error) return "was deleted";
  return fmt::format("was moved to {}", now.string());
}

}  // namespace lockstep::tracking
