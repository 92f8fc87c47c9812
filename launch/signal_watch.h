// Turns the signals that end a launcher, and the end of its children, into something poll() can
// wait for. Process-wide: one at a time, in a process without other threads that take signals.
#pragma once

#include <poll.h>

#include <csignal>
#include <optional>

#include "core/system/file_descriptor.h"

namespace lockstep::launch {

class SignalWatch {
 public:
  // Takes SIGINT, SIGTERM, SIGHUP, SIGQUIT (those that are not ignored: nohup) and SIGCHLD, and
  // ignores SIGPIPE. Throws Environment.
  SignalWatch();
  // What was taken is as before; signals that came meanwhile and were not asked for are dropped.
  ~SignalWatch();
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

  pollfd poll_request() const { return {.fd = fd_.get(), .events = POLLIN, .revents = 0}; }
  // The next signal that asks this process to end; nullopt when there is none now. Never blocks.
  std::optional<int> next();

 private:
  sigset_t previous_mask_{};
  struct sigaction previous_child_ {
  }, previous_pipe_{};
  FileDescriptor fd_;
};

}  // namespace lockstep::launch
