// A file descriptor that becomes readable on termination signals and when a child exits, for use
// with poll(). Process-wide: at most one instance, and no other thread may receive these signals.
#pragma once

#include <poll.h>

#include <chrono>
#include <csignal>
#include <optional>

#include "core/system/file_descriptor.h"

namespace lockstep::launch {

// Signals within this time count as one: some programs signal a process and its group, too.
inline constexpr std::chrono::milliseconds kSameSignal{1000};

class SignalWatch {
 public:
  // Receives SIGINT, SIGTERM, SIGHUP, SIGQUIT and SIGUSR1 unless they are ignored (nohup), and
  // SIGCHLD. Ignores SIGPIPE and SIGXFSZ: such a write fails with an error. Throws Environment.
  SignalWatch();
  // Restores the previous mask and actions; pending signals are discarded.
  ~SignalWatch();
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

  pollfd poll_request() const { return {.fd = fd_.get(), .events = POLLIN, .revents = 0}; }
  // The next pending signal other than SIGCHLD; nullopt if there is none. Never blocks.
  std::optional<int> next();

 private:
  sigset_t previous_mask_{};
  struct sigaction previous_child_ {
  }, previous_pipe_{}, previous_file_size_{};
  FileDescriptor fd_;
};

}  // namespace lockstep::launch
