// Complete reads and writes: repeats system calls that transfer only a part of the data.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep {

// Both return false and set errno on failure; some of the bytes may have been written.
inline bool write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const auto count = ::write(fd, bytes.data(), bytes.size());
    if (count < 0 && errno != EINTR) return false;
    if (count > 0) bytes.remove_prefix(static_cast<size_t>(count));
  }
  return true;
}

inline bool write_all_at(int fd, std::string_view bytes, uint64_t offset) {
  while (!bytes.empty()) {
    const auto count = ::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (count < 0 && errno != EINTR) return false;
    if (count <= 0) continue;
    bytes.remove_prefix(static_cast<size_t>(count));
    offset += static_cast<uint64_t>(count);
  }
  return true;
}

// Returns the number of bytes read, fewer than `size` only at the end of the file; nullopt, with
// errno set, on failure.
inline std::optional<size_t> read_all_at(int fd, char* bytes, size_t size, uint64_t offset) {
  size_t done = 0;
  while (done < size) {
    const auto count = ::pread(fd, bytes + done, size - done, static_cast<off_t>(offset + done));
    if (count < 0 && errno != EINTR) return std::nullopt;
    if (count == 0) break;
    if (count > 0) done += static_cast<size_t>(count);
  }
  return done;
}

inline std::optional<std::string> read_text_at(int fd, size_t size, uint64_t offset) {
  std::string text(size, '\0');
  const auto count = read_all_at(fd, text.data(), size, offset);
  if (!count) return std::nullopt;
  text.resize(*count);
  return text;
}

}  // namespace lockstep
