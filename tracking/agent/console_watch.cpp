#include "tracking/agent/console_watch.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "lockstep/error.h"
#include "tracking/runs/run_directory.h"

namespace lockstep::tracking {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxConsoleLineLength = 8u << 10;
constexpr size_t kConsoleChunk = 1u << 20;

// Checks the size first: most calls find nothing new.
std::string read_chunk(int file, uint64_t offset) {
  struct stat status {};
  if (::fstat(file, &status) != 0) throw errno_error("cannot read the output of a rank");
  const auto size = static_cast<uint64_t>(status.st_size);
  std::string chunk(std::min<uint64_t>(kConsoleChunk, size - std::min(offset, size)), '\0');
  if (chunk.empty()) return chunk;
  const auto count = ::pread(file, chunk.data(), chunk.size(), static_cast<off_t>(offset));
  if (count < 0) throw errno_error("cannot read the output of a rank");
  chunk.resize(static_cast<size_t>(count));
  return chunk;
}

}  // namespace

ConsoleWatch::ConsoleWatch(fs::path logs, Counts already_read)
    : logs_(std::move(logs)), already_read_(std::move(already_read)) {}

void ConsoleWatch::find_files() {
  for (const auto& output : rank_outputs(logs_)) {
    const std::tuple key(output.attempt, output.local_rank, output.start, output.is_error);
    if (files_.contains(key)) continue;
    FileDescriptor file(::open(output.path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    if (file.is_open())
      files_[key] = {.file = std::move(file),
                     .local_rank = output.local_rank,
                     .is_error = output.is_error,
                     .partial_line = {}};
  }
}

// Reads one file after the other, so that skipped lines are those of earlier files.
bool ConsoleWatch::poll(int first_rank, double now, bool is_final, const OnLine& on_line) {
  find_files();
  for (auto& [key, file] : files_)
    if (read(file, first_rank + file.local_rank, now, is_final, on_line)) return true;
  return false;
}

// Returns whether a full chunk was read.
bool ConsoleWatch::read(File& file, int rank, double now, bool is_final, const OnLine& on_line) {
  const auto chunk = read_chunk(file.file.get(), file.offset);
  file.offset += chunk.size();
  size_t begin = 0;
  for (size_t end = 0; (end = chunk.find('\n', begin)) != std::string::npos; begin = end + 1) {
    emit(file, rank, now, file.partial_line + chunk.substr(begin, end - begin), on_line);
    file.partial_line.clear();
  }
  file.partial_line += chunk.substr(begin);
  const bool more = chunk.size() == kConsoleChunk;
  if (file.partial_line.size() > kMaxConsoleLineLength ||
      (is_final && !more && !file.partial_line.empty())) {
    emit(file, rank, now, file.partial_line, on_line);
    file.partial_line.clear();
  }
  return more;
}

void ConsoleWatch::emit(File& file, int rank, double now, std::string line, const OnLine& on_line) {
  auto& to_skip = already_read_[{rank, file.is_error}];
  if (to_skip > 0) {
    --to_skip;
    return;
  }
  if (line.ends_with('\r')) line.pop_back();
  if (line.size() > kMaxConsoleLineLength) line.resize(kMaxConsoleLineLength);
  on_line({.time = now, .rank = rank, .is_error = file.is_error, .line = std::move(line)});
}

}  // namespace lockstep::tracking
