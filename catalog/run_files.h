// Access to files within a directory by untrusted paths.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/system/file_descriptor.h"

namespace lockstep::catalog {

struct FileEntry {
  std::string path;  // relative, with '/'
  uint64_t bytes = 0;
  double modified = 0;  // unix seconds
};

// Regular files below `directory` without hidden ones, by path; links are neither followed nor
// listed. At most `limit`; `more` is set if there are others.
std::vector<FileEntry> list_files(const std::filesystem::path& directory, size_t limit, bool& more);

// Whether `path` is a valid path within a directory: relative, of at most 1024 bytes,
// without empty parts, parts that begin with '.', control characters or '\'.
bool is_inner_path(std::string_view path);

struct InnerFile {
  std::shared_ptr<const FileDescriptor> file;  // nullptr: not found
  uint64_t bytes = 0;
};

// The regular file at `path` within `directory`, opened part by part without following any link, so
// that nothing outside is reachable, even if the tree changes meanwhile.
InnerFile open_inner_file(const std::filesystem::path& directory, std::string_view path);

}  // namespace lockstep::catalog
