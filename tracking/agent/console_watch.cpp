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
constexpr size_t kConsolePiece = 1u << 20;

// Most looks find nothing new, and there are many.
std::string next_piece(int file, uint64_t taken) {
  struct stat status {};
  if (::fstat(file, &status) != 0) throw errno_error("cannot read the output of a rank");
  const auto size = static_cast<uint64_t>(status.st_size);
  std::string piece(std::min<uint64_t>(kConsolePiece, size - std::min(taken, size)), '\0');
  if (piece.empty()) return piece;
  const auto count = ::pread(file, piece.data(), piece.size(), static_cast<off_t>(taken));
  if (count < 0) throw errno_error("cannot read the output of a rank");
  piece.resize(static_cast<size_t>(count));
  return piece;
}

}  // namespace

ConsoleWatch::ConsoleWatch(fs::path logs, Counts already_taken)
    : logs_(std::move(logs)), already_taken_(std::move(already_taken)) {}

void ConsoleWatch::find_files() {
  for (const auto& output : rank_outputs(logs_)) {
    if (files_.contains(output.path)) continue;
    FileDescriptor file(::open(output.path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    if (file.is_open())
      files_[output.path] = {.file = std::move(file),
                             .local_rank = output.local_rank,
                             .is_error = output.is_error,
                             .rest = {}};
  }
}

// One file after the other, so that the lines that were taken before are those of the files before.
bool ConsoleWatch::poll(int first_rank, double now, bool is_final, const OnLine& on_line) {
  find_files();
  for (auto& [path, file] : files_)
    if (read(file, first_rank + file.local_rank, now, is_final, on_line)) return true;
  return false;
}

// Returns whether there was as much as is read at once.
bool ConsoleWatch::read(File& file, int rank, double now, bool is_final, const OnLine& on_line) {
  const auto piece = next_piece(file.file.get(), file.taken);
  file.taken += piece.size();
  size_t begin = 0;
  for (size_t end = 0; (end = piece.find('\n', begin)) != std::string::npos; begin = end + 1) {
    give(file, rank, now, file.rest + piece.substr(begin, end - begin), on_line);
    file.rest.clear();
  }
  file.rest += piece.substr(begin);
  const bool more = piece.size() == kConsolePiece;
  if (file.rest.size() > kMaxConsoleLineLength || (is_final && !more && !file.rest.empty())) {
    give(file, rank, now, file.rest, on_line);
    file.rest.clear();
  }
  return more;
}

void ConsoleWatch::give(File& file, int rank, double now, std::string line, const OnLine& on_line) {
  auto& taken = already_taken_[{rank, file.is_error}];
  if (taken > 0) {
    --taken;
    return;
  }
  if (line.ends_with('\r')) line.pop_back();
  if (line.size() > kMaxConsoleLineLength) line.resize(kMaxConsoleLineLength);
  on_line({.time = now, .rank = rank, .is_error = file.is_error, .line = std::move(line)});
}

}  // namespace lockstep::tracking
