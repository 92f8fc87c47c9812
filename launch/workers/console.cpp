#include "launch/workers/console.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "lockstep/rank_env.h"

namespace lockstep::launch {
namespace {

constexpr size_t kMaxPending = 1u << 20;
constexpr std::array kColors = {36, 33, 32, 35, 34, 96, 93, 92};

}  // namespace

Console::Console(int fd) : fd_(fd), colored_(::isatty(fd) == 1 && !environment("NO_COLOR")) {}

void Console::write_line(int rank, std::string_view line) {
  write_line(rank, fmt::format("rank {}", rank), line);
}

void Console::write_line(int number, std::string_view label, std::string_view line) {
  if (broken_ || (drops_ && is_full())) {
    lacks_text_ = true;
    return;
  }
  if (colored_)
    fmt::format_to(std::back_inserter(pending_), "\x1b[{}m[{}]\x1b[0m {}\n",
                   kColors[static_cast<size_t>(number) % kColors.size()], label, line);
  else
    fmt::format_to(std::back_inserter(pending_), "[{}] {}\n", label, line);
}

void Console::write_note(std::string_view text) {
  if (!broken_) fmt::format_to(std::back_inserter(pending_), "lockstep: {}\n", text);
}

bool Console::is_full() const { return pending_.size() > kMaxPending; }

void Console::write_some() {
  // A writable pipe accepts PIPE_BUF bytes without blocking.
  const auto written = ::write(fd_, pending_.data(), std::min<size_t>(pending_.size(), PIPE_BUF));
  if (written >= 0) {
    pending_.erase(0, static_cast<size_t>(written));
  } else if (errno != EINTR && errno != EAGAIN) {
    broken_ = lacks_text_ = true;
    pending_.clear();
  }
}

void Console::flush(std::chrono::milliseconds limit) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (has_pending()) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    auto request = poll_request();
    const auto ready = left.count() > 0 ? ::poll(&request, 1, static_cast<int>(left.count())) : 0;
    if (ready == 0) return;
    if (ready > 0) write_some();
  }
}

}  // namespace lockstep::launch
