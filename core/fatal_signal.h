// What it means that a process died of a signal.
#pragma once

#include <csignal>

#include "lockstep/error.h"

namespace lockstep {

// Whether a process brings this signal upon itself.
constexpr bool is_crash(int signal) {
  return signal == SIGSEGV || signal == SIGABRT || signal == SIGBUS || signal == SIGFPE ||
         signal == SIGILL || signal == SIGSYS || signal == SIGTRAP;
}

// A crash is a bug; other signals come from outside, so that a restart may help.
constexpr ErrorKind kind_of_signal(int signal) {
  return is_crash(signal) ? ErrorKind::Bug : ErrorKind::Environment;
}

}  // namespace lockstep
