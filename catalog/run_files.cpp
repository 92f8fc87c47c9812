#include "catalog/run_files.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>

namespace lockstep::catalog {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxInnerPathLength = 1024;

}  // namespace

std::vector<FileEntry> list_files(const fs::path& directory, size_t most, bool& more) {
  std::vector<FileEntry> files;
  more = false;
  std::error_code error;
  fs::recursive_directory_iterator it(directory, error);
  for (; !error && it != fs::recursive_directory_iterator(); it.increment(error)) {
    if (it->path().filename().string().starts_with('.')) {
      it.disable_recursion_pending();
      continue;
    }
    struct stat info {};
    if (::lstat(it->path().c_str(), &info) != 0 || !S_ISREG(info.st_mode)) continue;
    if (files.size() == most) {
      more = true;
      break;
    }
    files.push_back({.path = it->path().lexically_relative(directory).generic_string(),
                     .bytes = static_cast<uint64_t>(info.st_size),
                     .modified = static_cast<double>(info.st_mtim.tv_sec)});
  }
  std::ranges::sort(files, {}, &FileEntry::path);
  return files;
}

bool is_inner_path(std::string_view path) {
  if (path.empty() || path.size() > kMaxInnerPathLength) return false;
  const auto is_bad = [](unsigned char c) { return c < 0x20 || c == 0x7F || c == '\\'; };
  if (std::ranges::any_of(path, is_bad)) return false;
  while (true) {
    const auto slash = path.find('/');
    const auto part = path.substr(0, slash);
    if (part.empty() || part.starts_with('.')) return false;
    if (slash == std::string_view::npos) return true;
    path.remove_prefix(slash + 1);
  }
}

InnerFile open_inner_file(const fs::path& directory, std::string_view path) {
  if (!is_inner_path(path)) return {};
  FileDescriptor at(::open(directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  while (at.is_open()) {
    const auto slash = path.find('/');
    const std::string part(path.substr(0, slash));
    if (slash == std::string_view::npos) {
      // O_NONBLOCK: opening a named pipe must not block.
      FileDescriptor file(
          ::openat(at.get(), part.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
      struct stat info {};
      if (!file.is_open() || ::fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode)) return {};
      return {std::make_shared<const FileDescriptor>(std::move(file)),
              static_cast<uint64_t>(info.st_size)};
    }
    at = FileDescriptor(
        ::openat(at.get(), part.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    path.remove_prefix(slash + 1);
  }
  return {};
}

}  // namespace lockstep::catalog
