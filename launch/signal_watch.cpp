#include "launch/signal_watch.h"

#include <sys/signalfd.h>

#include "lockstep/error.h"

namespace lockstep::launch {
namespace {

bool is_ignored(int signal) {
  struct sigaction action {};
  return ::sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace

SignalWatch::SignalWatch() {
  sigset_t watched;
  sigemptyset(&watched);
  sigaddset(&watched, SIGCHLD);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1})
    if (!is_ignored(signal)) sigaddset(&watched, signal);
  fd_ = FileDescriptor(::signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd_.is_open()) throw errno_error("cannot watch signals");
  ::sigprocmask(SIG_BLOCK, &watched, &previous_mask_);
  // While SIGCHLD is ignored, children are reaped automatically and their exit status is lost.
  struct sigaction by_default {
  }, ignore{};
  by_default.sa_handler = SIG_DFL;
  ignore.sa_handler = SIG_IGN;
  ::sigaction(SIGCHLD, &by_default, &previous_child_);
  ::sigaction(SIGPIPE, &ignore, &previous_pipe_);
  ::sigaction(SIGXFSZ, &ignore, &previous_file_size_);
}

SignalWatch::~SignalWatch() {
  while (next()) {
  }
  ::sigaction(SIGCHLD, &previous_child_, nullptr);
  ::sigaction(SIGPIPE, &previous_pipe_, nullptr);
  ::sigaction(SIGXFSZ, &previous_file_size_, nullptr);
  ::sigprocmask(SIG_SETMASK, &previous_mask_, nullptr);
}

std::optional<int> SignalWatch::next() {
  signalfd_siginfo info{};
  while (::read(fd_.get(), &info, sizeof info) == sizeof info)
    if (info.ssi_signo != SIGCHLD) return static_cast<int>(info.ssi_signo);
  return std::nullopt;
}

}  // namespace lockstep::launch
