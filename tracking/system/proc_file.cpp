#include "tracking/system/proc_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "core/number_text.h"
#include "core/system/file_descriptor.h"

namespace lockstep::tracking::proc {
namespace {

constexpr size_t kMaxProcFileBytes = 4u << 20;
constexpr auto kWordBreaks = " \t\n";

}  // namespace

std::optional<std::string_view> FileReader::read(const std::string& path) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.is_open()) return std::nullopt;
  size_t length = 0;
  for (;;) {
    const auto got = ::read(file.get(), buffer_.data() + length, buffer_.size() - length);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return std::nullopt;
    if (got == 0) break;
    length += static_cast<size_t>(got);
    if (length < buffer_.size()) continue;
    if (length >= kMaxProcFileBytes) break;
    buffer_.resize(buffer_.size() * 2);
  }
  return std::string_view(buffer_).substr(0, length);
}

std::optional<std::string_view> FileReader::read_piece(const std::string& path) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.is_open()) return std::nullopt;
  const auto got = ::read(file.get(), buffer_.data(), buffer_.size());
  if (got <= 0) return std::nullopt;
  return std::string_view(buffer_).substr(0, static_cast<size_t>(got));
}

bool next_line(std::string_view& text, std::string_view& line) {
  if (text.empty()) return false;
  const auto end = text.find('\n');
  line = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return true;
}

std::string_view next_word(std::string_view& line) {
  const auto begin = line.find_first_not_of(kWordBreaks);
  if (begin == std::string_view::npos) return {};
  line.remove_prefix(begin);
  const auto word = line.substr(0, line.find_first_of(kWordBreaks));
  line.remove_prefix(word.size());
  return word;
}

std::string_view nth_word(std::string_view line, int n) {
  auto word = next_word(line);
  for (; n > 0; --n) word = next_word(line);
  return word;
}

std::optional<uint64_t> count_of(std::string_view text, std::string_view key) {
  std::string_view line;
  while (next_line(text, line))
    if (next_word(line) == key) return parse_number<uint64_t>(next_word(line));
  return std::nullopt;
}

bool file_exists(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

}  // namespace lockstep::tracking::proc
