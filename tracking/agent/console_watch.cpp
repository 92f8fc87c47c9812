#include "tracking/agent/console_watch.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

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
    if (!file.is_open()) continue;
    auto& added = files_[key];
    added = {.file = std::move(file),
             .local_rank = output.local_rank,
             .is_error = output.is_error,
             .partial_line = {}};
    for (auto& [other, earlier] : files_)
      if (other < key && earlier.local_rank == added.local_rank &&
          earlier.is_error == added.is_error)
        earlier.is_over = true;
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
  const auto report = [&] { emit(file, rank, now, std::exchange(file.partial_line, {}), on_line); };
  for (size_t begin = 0; begin < chunk.size();) {
    if (chunk[begin] == '\n') {
      report();
      ++begin;
      continue;
    }
    if (file.partial_line.size() == kMaxConsoleLineLength) report();
    const auto room = kMaxConsoleLineLength - file.partial_line.size();
    const auto end = std::min(chunk.find('\n', begin), chunk.size());
    const auto count = std::min(end - begin, room);
    file.partial_line.append(chunk, begin, count);
    begin += count;
  }
  const bool more = chunk.size() == kConsoleChunk;
  if ((is_final || file.is_over) && !more && !file.partial_line.empty()) report();
  return more;
}

void ConsoleWatch::emit(File& file, int rank, double now, std::string line, const OnLine& on_line) {
  auto& to_skip = already_read_[{rank, file.is_error}];
  if (to_skip > 0) {
    --to_skip;
    return;
  }
  if (line.ends_with('\r')) line.pop_back();
  on_line({.time = now, .rank = rank, .is_error = file.is_error, .line = std::move(line)});
}

}  // namespace lockstep::tracking
