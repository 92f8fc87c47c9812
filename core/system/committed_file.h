// A file that only grows, and whose length is agreed upon: what was flushed stays whole, and what a
// killed process wrote behind that is cut off by the next one. The length is kept elsewhere (in the
// state of a sink).
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "core/system/file_descriptor.h"

namespace lockstep {

// Thread: one at a time. Every call may throw Environment (full disk, no permission, ...).
class CommittedFile {
 public:
  // Opens or creates `path` and its directories, and cuts it to `length` bytes; a shorter one stays
  // as it is. The file is locked as long as the object lives: a second writer is refused.
  CommittedFile(std::filesystem::path path, uint64_t length);

  // Kept in memory until flush().
  void append(std::string_view bytes) { unflushed_ += bytes; }

  // Writes and syncs. When that fails, the file is cut to what was flushed before.
  void flush();

  // Replaces flushed bytes in place, for notes that are smaller than a page.
  void overwrite(uint64_t offset, std::string_view bytes);

  uint64_t flushed_length() const { return flushed_length_; }
  uint64_t length() const { return flushed_length_ + unflushed_.size(); }
  std::string& unflushed() { return unflushed_; }
  const std::filesystem::path& path() const { return path_; }

 private:
  void write_all(uint64_t offset, std::string_view bytes);

  std::filesystem::path path_;
  FileDescriptor file_;
  uint64_t flushed_length_ = 0;
  std::string unflushed_;
};

}  // namespace lockstep
