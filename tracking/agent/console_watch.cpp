#include "tracking/agent/console_watch.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>

#include "core/error.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

constexpr size_t kLongestConsoleLine = 8u << 10;
constexpr size_t kConsolePiece = 1u << 20;

std::optional<int> number_behind(const std::string& name, const std::string& prefix) {
  int value = 0;
  const auto* begin = name.data() + std::min(prefix.size(), name.size());
  const auto [end, error] = std::from_chars(begin, name.data() + name.size(), value);
  const bool good = name.starts_with(prefix) && error == std::errc() &&
                    end == name.data() + name.size() && value >= 0;
  return good ? std::optional(value) : std::nullopt;
}

// Calls `visit(path, n)` for what is called PREFIXn in `dir`.
template <class Visit>
void each_numbered(const fs::path& dir, const std::string& prefix, const Visit& visit) {
  std::error_code error;
  for (fs::directory_iterator it(dir, error), end; !error && it != end; it.increment(error))
    if (const auto number = number_behind(it->path().filename().string(), prefix))
      visit(it->path(), *number);
}

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
  each_numbered(logs_, "attempt_", [&](const fs::path& attempt, int) {
    each_numbered(attempt, "", [&](const fs::path& rank_dir, int local_rank) {
      for (const bool is_error : {false, true}) {
        const auto path = rank_dir / (is_error ? "stderr.log" : "stdout.log");
        if (files_.contains(path)) continue;
        FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
        if (file.is_open())
          files_[path] = {
              .file = std::move(file), .local_rank = local_rank, .is_error = is_error, .rest = {}};
      }
    });
  });
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
  if (file.rest.size() > kLongestConsoleLine || (is_final && !more && !file.rest.empty())) {
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
  if (line.size() > kLongestConsoleLine) line.resize(kLongestConsoleLine);
  on_line({.time = now, .rank = rank, .is_error = file.is_error, .line = std::move(line)});
}

}  // namespace lockstep
