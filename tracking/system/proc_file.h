// Reads and parses small files of the kernel (/proc, /sys). Does not throw for any content, or for
// a file that no longer exists.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep::tracking::proc {

// One buffer for many files. Thread: one at a time.
class FileReader {
 public:
  FileReader() : buffer_(16u << 10, '\0') {}

  // The content of `path`, valid until the next call; at most 4 MiB. nullopt if it cannot be read,
  // e.g. because its process has exited.
  std::optional<std::string_view> read(const std::string& path);

  // As read(), for a file that the kernel returns in one read() of at most 16 KiB: half the cost.
  std::optional<std::string_view> read_piece(const std::string& path);

 private:
  std::string buffer_;
};

// Removes the first line from `text`. False if it is empty.
bool next_line(std::string_view& text, std::string_view& line);

// Removes the first word from `line`; empty if there is none.
std::string_view next_word(std::string_view& line);

// The n-th word, from 0; empty if there are fewer.
std::string_view nth_word(std::string_view line, int n);

// The number after `key` in lines such as "oom_kill 3" and "MemTotal:   128 kB" (ignores the unit).
std::optional<uint64_t> count_of(std::string_view text, std::string_view key);

bool file_exists(const std::string& path);

}  // namespace lockstep::tracking::proc
