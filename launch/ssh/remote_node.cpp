#include "launch/ssh/remote_node.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <optional>

#include "core/system/child_process.h"
#include "launch/environment/node_order.h"
#include "launch/signal_watch.h"
#include "lockstep/error.h"
#include "lockstep/rank_env.h"
#include "lockstep/version.h"

namespace lockstep::launch {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr auto kOrderWithin = std::chrono::seconds(60);
// Behind the launcher's own grace: it kills its ranks, and reports.
constexpr auto kLauncherEndsWithin = std::chrono::seconds(30);
constexpr milliseconds kMaxPoll{1000};

int wait_of(Clock::time_point deadline) {
  const auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now());
  return static_cast<int>(std::clamp(left, milliseconds(0), kMaxPoll).count());
}

// Byte by byte: what follows the line is not part of it.
std::string read_order_line() {
  std::string line;
  const auto deadline = Clock::now() + kOrderWithin;
  while (line.size() < kMaxOrder) {
    pollfd request = {.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
    if (::poll(&request, 1, wait_of(deadline)) < 0 && errno != EINTR)
      throw errno_error("cannot wait for an order");
    if (Clock::now() >= deadline) throw environment_error("no order came on standard input");
    if (!request.revents) continue;
    char c = 0;
    const auto got = ::read(STDIN_FILENO, &c, 1);
    if (got < 0 && errno != EINTR) throw errno_error("cannot read the order");
    if (got == 0 || c == '\n') return line;
    if (got > 0) line += c;
  }
  return line;
}

NodeOrder take_order() {
  auto order = parse_node_order(read_order_line());
  if (order.version != kVersion)
    throw config_error(fmt::format(
        "this host has Lockstep {}, the launch is of {}: install the same on every host", kVersion,
        order.version));
  if (::chdir(order.directory.c_str()) != 0)
    throw config_error(
        fmt::format("cannot work in {}: {}; every host needs the launch's working directory",
                    order.directory, std::strerror(errno)));
  return order;
}

class Guard {
 public:
  Guard(const std::string& program, const NodeOrder& order)
      : grace_(order.grace),
        launcher_(ChildCommand{.program = program,
                               .arguments = order.arguments,
                               .environment = environment_with(order.environment),
                               .stdout_fd = STDOUT_FILENO,
                               .stderr_fd = STDERR_FILENO}) {}

  int run() {
    while (true) {
      wait();
      if (const auto exit = launcher_.poll_exit()) {
        launcher_.reap();
        return exit->signal ? 128 + *exit->signal : exit->code;
      }
      while (signals_.next()) stop();
      const auto now = Clock::now();
      if (input_is_open_ && now - heard_ > kSilenceMeansGone) lose_input();
      if (kill_at_ && now >= *kill_at_) launcher_.signal_group(SIGKILL);
    }
  }

 private:
  void wait() {
    std::array<pollfd, 2> requests = {signals_.poll_request(),
                                      {.fd = STDIN_FILENO, .events = POLLIN, .revents = 0}};
    const auto count = input_is_open_ ? requests.size() : requests.size() - 1;
    if (::poll(requests.data(), count, static_cast<int>(kMaxPoll.count())) < 0) {
      if (errno == EINTR) return;
      throw errno_error("cannot wait for the launcher");
    }
    if (input_is_open_ && requests[1].revents) read_input();
  }

  void read_input() {
    std::array<char, 256> bytes;
    const auto got = ::read(STDIN_FILENO, bytes.data(), bytes.size());
    if (got < 0 && errno == EINTR) return;
    if (got <= 0) return lose_input();
    heard_ = Clock::now();
    for (ssize_t i = 0; i < got; ++i) {
      const char byte = bytes[static_cast<size_t>(i)];
      if (byte == kStop) stop();
      if (byte == kKill) kill();
    }
  }

  void lose_input() {
    input_is_open_ = false;
    stop();
  }

  void stop() {
    launcher_.signal_group(SIGTERM);
    if (!kill_at_) kill_at_ = Clock::now() + grace_ + kLauncherEndsWithin;
  }

  // A second signal ends a launcher's patience.
  void kill() {
    if (!kill_at_) stop();
    stop();
    kill_at_ = std::min(*kill_at_, Clock::now() + kLauncherEndsWithin);
  }

  milliseconds grace_;
  SignalWatch signals_;
  ChildProcess launcher_;
  bool input_is_open_ = true;
  Clock::time_point heard_ = Clock::now();
  std::optional<Clock::time_point> kill_at_;
};

void announce() {
  const auto line = fmt::format("{}\n", kNodeReady);
  if (::write(STDOUT_FILENO, line.data(), line.size()) != static_cast<ssize_t>(line.size()))
    throw errno_error("cannot answer the launch");
}

}  // namespace

int run_remote_node(const std::string& program) {
  const auto order = take_order();
  announce();
  return Guard(program, order).run();
}

}  // namespace lockstep::launch
