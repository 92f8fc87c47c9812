// Small files of the kernel (/proc, /sys): read whole, taken apart by line and word. Nothing here
// throws for what a file holds or for one that is gone.
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

  // What `path` holds, valid until the next call; at most 4 MiB of it. nullopt when it cannot be
  // read, e.g. because its process is gone.
  std::optional<std::string_view> read(const std::string& path);

  // The same for a file that the kernel gives out in one piece of at most 16 KiB: half the price.
  std::optional<std::string_view> read_piece(const std::string& path);

 private:
  std::string buffer_;
};

// Takes the first line off `text`. False when nothing is left.
bool next_line(std::string_view& text, std::string_view& line);

// Takes the first word off `line`; empty when there is none.
std::string_view next_word(std::string_view& line);

// The n-th word, counted from 0; empty when there are fewer.
std::string_view nth_word(std::string_view line, int n);

// The number behind `key` in lines such as "oom_kill 3" and "MemTotal:   128 kB" (the unit is not
// looked at).
std::optional<uint64_t> count_of(std::string_view text, std::string_view key);

bool file_exists(const std::string& path);

}  // namespace lockstep::tracking::proc
