// Classifies signals that terminate a process.
#pragma once

#include <csignal>

#include "lockstep/error.h"

namespace lockstep {

// Whether the signal is caused by the process itself, such as SIGSEGV.
constexpr bool is_crash(int signal) {
  return signal == SIGSEGV || signal == SIGABRT || signal == SIGBUS || signal == SIGFPE ||
         signal == SIGILL || signal == SIGSYS || signal == SIGTRAP;
}

// Bug for a crash; Environment for signals sent by other processes, where a restart may help.
constexpr ErrorKind kind_of_signal(int signal) {
  return is_crash(signal) ? ErrorKind::Bug : ErrorKind::Environment;
}

}  // namespace lockstep
