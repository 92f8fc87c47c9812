#include "launch/report/crash_report.h"

#include <execinfo.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstring>

namespace lockstep::launch {
namespace {

constexpr int kMaxCrashFrames = 10;
constexpr int kCrashHandlerFrames = 2;  // the handler and the kernel's return from it
constexpr std::array kCrashSignals = {SIGSEGV, SIGFPE, SIGILL};

const char* crash_program = "";

void write_to_stderr(const char* text) {
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text, std::strlen(text));
}

// Async-signal-safe: backtrace() has already loaded the unwinder, the others are system calls.
void report_crash(int signal, siginfo_t* info, void*) {
  // The handler is already removed (SA_RESETHAND), so raising the signal again kills the process.
  if (info->si_code > 0) {
    write_to_stderr(crash_program);
    write_to_stderr(signal == SIGSEGV ? ": SIGSEGV" : signal == SIGFPE ? ": SIGFPE" : ": SIGILL");
    write_to_stderr(" in (innermost function first):\n");
    std::array<void*, kMaxCrashFrames + kCrashHandlerFrames> frames{};
    const int count = ::backtrace(frames.data(), static_cast<int>(frames.size()));
    if (count > kCrashHandlerFrames)
      ::backtrace_symbols_fd(frames.data() + kCrashHandlerFrames, count - kCrashHandlerFrames,
                             STDERR_FILENO);
  }
  ::raise(signal);
}

}  // namespace

void report_crashes(const char* program) {
  crash_program = program;
  // The first walk loads the unwinder, which must not happen inside a signal handler.
  std::array<void*, 1> frame{};
  ::backtrace(frame.data(), 1);
  // The handler cannot run on an overflowed stack. Training thread only.
  static std::array<char, 1 << 16> stack;
  const stack_t alternative{.ss_sp = stack.data(), .ss_flags = 0, .ss_size = stack.size()};
  ::sigaltstack(&alternative, nullptr);
  struct sigaction action {};
  action.sa_sigaction = report_crash;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESETHAND;
  for (const int signal : kCrashSignals) ::sigaction(signal, &action, nullptr);
}

}  // namespace lockstep::launch
