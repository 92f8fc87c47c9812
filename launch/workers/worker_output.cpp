#include "launch/workers/worker_output.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "core/system/file_descriptor.h"
#include "core/system/full_io.h"
#include "lockstep/error.h"

namespace lockstep::launch {
namespace {

constexpr size_t kBufferBytes = 64u << 10;
constexpr size_t kNumLastLines = 10;
constexpr size_t kMaxLastLineLength = 1000;
constexpr int kMaxFinalReads = 64;  // another process may hold the pipe and keep writing

// "[W1122 22:16:26.123456789 socket.cpp:464] ...": a warning or info message of LibTorch, which is
// not the reason of a failure.
bool is_torch_log_line(std::string_view line) {
  return line.size() > 6 && line[0] == '[' && (line[1] == 'W' || line[1] == 'I') &&
         line[6] == ' ' && std::all_of(line.begin() + 2, line.begin() + 6, [](char letter) {
           return letter >= '0' && letter <= '9';
         });
}

}  // namespace

WorkerOutput::WorkerOutput(int rank, const std::filesystem::path& log_path, Console* console,
                           IsHidden is_hidden)
    : rank_(rank), log_path_(log_path), console_(console), is_hidden_(std::move(is_hidden)) {
  log_ = FileDescriptor(::open(log_path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!log_.is_open()) throw errno_error(fmt::format("cannot create {}", log_path.string()));
  auto [read_end, write_end] = make_pipe();
  unblock(read_end);
  read_end_ = std::move(read_end);
  write_end_ = std::move(write_end);
}

bool WorkerOutput::read_some() {
  std::array<char, kBufferBytes> buffer;
  const auto got = ::read(read_end_.get(), buffer.data(), buffer.size());
  if (got < 0 && errno == EINTR) return true;
  if (got < 0 && errno == EAGAIN) return false;
  if (got <= 0) {
    end();
    return false;
  }
  const std::string_view bytes(buffer.data(), static_cast<size_t>(got));
  write_log(bytes);
  splitter_.feed(bytes, [this](std::string_view line) { take_line(line); });
  return true;
}

void WorkerOutput::finish() {
  for (int i = 0; i < kMaxFinalReads && is_open() && read_some(); ++i) {
  }
  if (is_open()) end();
}

void WorkerOutput::write_log(std::string_view bytes) {
  if (log_error_.empty() && !write_all(log_.get(), bytes))
    log_error_ = fmt::format("{} is incomplete: {}", log_path_.string(), std::strerror(errno));
}

void WorkerOutput::take_line(std::string_view line) {
  if (console_ && !(is_hidden_ && is_hidden_(line))) console_->write_line(rank_, line);
  if (line.find_first_not_of(" \t") == std::string_view::npos || is_torch_log_line(line)) return;
  if (last_lines_.size() == kNumLastLines) last_lines_.pop_front();
  last_lines_.emplace_back(line.substr(0, kMaxLastLineLength));
}

void WorkerOutput::end() {
  splitter_.finish([this](std::string_view line) { take_line(line); });
  read_end_.close();
  log_.close();
}

}  // namespace lockstep::launch
