#include "trainer/loop/stop_signals.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <ctime>

#include "lockstep/error.h"

namespace lockstep::trainer {
namespace {

constexpr std::array kSignals = {SIGTERM, SIGINT, SIGUSR1};
constexpr double kStallTimeout = 10;  // seconds

// State of the signal handler.
std::atomic<int> caught_signal{0};
std::atomic<int> wake_descriptor{-1}, term_descriptor{-1};
std::atomic<int64_t> caught_at_ms{0};
std::array<struct sigaction, kSignals.size()> previous_actions{};

// A scheduler signals both the launcher and its ranks, and the launcher forwards the signal:
// signals within a second count as one.
constexpr int64_t kSameSignalMs = 1000;

int64_t monotonic_ms() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000 + now.tv_nsec / 1'000'000;
}

void take_default_action(int signal) {
  struct sigaction by_default {};
  by_default.sa_handler = SIG_DFL;
  ::sigaction(signal, &by_default, nullptr);
  ::kill(::getpid(), signal);
}

void make_readable(const std::atomic<int>& descriptor) {
  const uint64_t one = 1;
  if (const int fd = descriptor.load(); fd >= 0) [[maybe_unused]]
    const auto written = ::write(fd, &one, sizeof one);
}

void on_signal(int signal) {
  const int saved_errno = errno;
  int none = 0;
  if (caught_signal.compare_exchange_strong(none, signal))
    caught_at_ms = monotonic_ms();
  else if (monotonic_ms() - caught_at_ms > kSameSignalMs)
    take_default_action(signal);
  make_readable(wake_descriptor);
  if (signal == SIGTERM) make_readable(term_descriptor);
  errno = saved_errno;
}

bool makes_no_progress(const ProgressSnapshot& now) {
  return is_stepping(now.phase) && now.idle_s > kStallTimeout + 2 * now.longest_step_s;
}

}  // namespace

StopSignals::StopSignals(const ProgressPage& progress)
    : progress_(progress),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      term_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!wake_.is_open() || !term_.is_open()) throw errno_error("cannot watch for signals");
  caught_signal = 0;
  wake_descriptor = wake_.get();
  term_descriptor = term_.get();
  struct sigaction catching {};
  catching.sa_handler = on_signal;
  catching.sa_flags = SA_RESTART;
  for (size_t i = 0; i < kSignals.size(); ++i) {
    ::sigaction(kSignals[i], nullptr, &previous_actions[i]);
    // Signals that the parent ignored (nohup) stay ignored.
    if (previous_actions[i].sa_handler != SIG_IGN) ::sigaction(kSignals[i], &catching, nullptr);
  }
  watcher_ = std::jthread([this](const std::stop_token& stop) { watch(stop); });
}

StopSignals::~StopSignals() {
  watcher_.request_stop();
  const uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(wake_.get(), &one, sizeof one);
  watcher_.join();
  // Another copy of a signal that stopped the training may still arrive: it must not kill a process
  // that is exiting cleanly.
  for (size_t i = 0; i < kSignals.size(); ++i)
    if (!caught_signal || previous_actions[i].sa_handler != SIG_DFL)
      ::sigaction(kSignals[i], &previous_actions[i], nullptr);
  wake_descriptor = term_descriptor = -1;
}

std::optional<int> StopSignals::signal() const {
  const int caught = caught_signal.load();
  if (caught == SIGTERM && progress_.launch_signal() == SIGINT) return SIGINT;  // Ctrl-C
  return caught ? std::optional(caught) : std::nullopt;
}

bool StopSignals::is_from_launcher() const { return progress_.launch_signal() != 0; }

void StopSignals::watch(const std::stop_token& stop) {
  pollfd request{.fd = wake_.get(), .events = POLLIN};
  while (!stop.stop_requested()) {
    const bool waits_for_progress = caught_signal != 0;
    ::poll(&request, 1, waits_for_progress ? 500 : -1);
    uint64_t count = 0;
    [[maybe_unused]] const auto bytes = ::read(wake_.get(), &count, sizeof count);
    if (waits_for_progress && !stop.stop_requested() && makes_no_progress(progress_.snapshot()))
      return take_default_action(caught_signal);
  }
}

}  // namespace lockstep::trainer
