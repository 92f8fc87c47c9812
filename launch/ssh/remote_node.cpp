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

constexpr auto kOrderTimeout = std::chrono::seconds(60);
// Beyond the launcher's grace period, in which it kills its ranks and reports.
constexpr auto kLauncherExitTimeout = std::chrono::seconds(30);
constexpr milliseconds kMaxPoll{1000};

int poll_timeout_ms(Clock::time_point deadline) {
  const auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now());
  return static_cast<int>(std::clamp(left, milliseconds(0), kMaxPoll).count());
}

// Reads byte by byte, so that nothing after the line is consumed.
std::string read_order_line() {
  std::string line;
  const auto deadline = Clock::now() + kOrderTimeout;
  while (line.size() < kMaxOrderBytes) {
    pollfd request = {.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
    if (::poll(&request, 1, poll_timeout_ms(deadline)) < 0 && errno != EINTR)
      throw errno_error("cannot wait for the start request on standard input");
    if (Clock::now() >= deadline) throw environment_error("no start request on standard input");
    if (!request.revents) continue;
    char c = 0;
    const auto got = ::read(STDIN_FILENO, &c, 1);
    if (got < 0 && errno != EINTR) throw errno_error("cannot read the order");
    if (got == 0 || c == '\n') return line;
    if (got > 0) line += c;
  }
  return line;
}

NodeOrder receive_order() {
  auto order = parse_node_order(read_order_line());
  if (order.version != kVersion)
    throw config_error(fmt::format(
        "this host has Lockstep {}, the launch {}: install the same version on every host",
        kVersion, order.version));
  if (::chdir(order.directory.c_str()) != 0)
    throw config_error(
        fmt::format("cannot change to {}: {}; every host needs the launch's working directory",
                    order.directory, std::strerror(errno)));
  return order;
}

class LauncherGuard {
 public:
  LauncherGuard(const std::string& program, const NodeOrder& order)
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
      if (input_is_open_ && now - last_received_ > kAliveTimeout) close_input();
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
    if (got <= 0) return close_input();
    last_received_ = Clock::now();
    for (ssize_t i = 0; i < got; ++i) {
      const char byte = bytes[static_cast<size_t>(i)];
      if (byte == kStop) stop();
      if (byte == kKill) kill();
    }
  }

  void close_input() {
    input_is_open_ = false;
    if (!kill_at_) stop();  // a second signal would kill the ranks
  }

  void stop() {
    launcher_.signal_group(SIGTERM);
    if (!kill_at_) kill_at_ = Clock::now() + grace_ + kLauncherExitTimeout;
  }

  // On the second signal the launcher kills its ranks.
  void kill() {
    if (!kill_at_) stop();
    stop();
    kill_at_ = std::min(*kill_at_, Clock::now() + kLauncherExitTimeout);
  }

  milliseconds grace_;
  SignalWatch signals_;
  ChildProcess launcher_;
  bool input_is_open_ = true;
  Clock::time_point last_received_ = Clock::now();
  std::optional<Clock::time_point> kill_at_;
};

void announce() {
  const auto line = fmt::format("{}\n", kNodeReady);
  if (::write(STDOUT_FILENO, line.data(), line.size()) != static_cast<ssize_t>(line.size()))
    throw errno_error("cannot respond to the launch");
}

}  // namespace

int run_remote_node(const std::string& program) {
  const auto order = receive_order();
  announce();
  return LauncherGuard(program, order).run();
}

}  // namespace lockstep::launch
