#include "core/system/new_name.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdio.h>

#include <cerrno>

#include "lockstep/error.h"

namespace lockstep {

void rename_to_new(const std::filesystem::path& temporary, const std::filesystem::path& target) {
  namespace fs = std::filesystem;
  int result = ::renameat2(AT_FDCWD, temporary.c_str(), AT_FDCWD, target.c_str(), RENAME_NOREPLACE);
  std::error_code ignored;
  const bool unable = result != 0 && errno == EINVAL;  // a network file system
  if (unable && fs::symlink_status(target, ignored).type() == fs::file_type::not_found)
    result = ::rename(temporary.c_str(), target.c_str());
  if (result != 0) throw errno_error(fmt::format("cannot create {}", target.string()));
}

}  // namespace lockstep
