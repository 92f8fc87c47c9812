// An append-only file with a committed length. Flushed data stay intact; data that a killed process
// wrote after its last flush are truncated when the file is opened again. The caller stores the
// committed length (in the state of a sink).
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "core/system/file_descriptor.h"

namespace lockstep {

// Thread: not thread-safe. Every call may throw Environment (full disk, no permission, ...).
class CommittedFile {
 public:
  // Opens or creates `path` and its directories, and truncates the file to `length` bytes if it is
  // longer. Holds a lock for the lifetime of the object; throws if another writer holds it.
  CommittedFile(std::filesystem::path path, uint64_t length);

  // Buffers `bytes` until flush().
  void append(std::string_view bytes) { unflushed_ += bytes; }

  // Writes and syncs the buffer. On failure, truncates the file to its previous flushed length.
  void flush();

  // Overwrites flushed bytes in place. Only for updates smaller than a page.
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
