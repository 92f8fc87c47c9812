// Why a training ended before its last step, if it did, and the flags of the step vote, most of
// which carry it.
#pragma once

#include <csignal>
#include <cstdint>
#include <string>

namespace lockstep {

enum class Ending { Completed, EarlyStop, Requested, Preempted };

// What a rank may bring to the vote of a step. Several at once: the later one in this list wins.
enum StepFlags : uint32_t {
  kEarlyStop = 1,     // a metric no longer improves
  kStopRequest = 2,   // `lockstep runs stop` or the dashboard
  kPreemptUser = 4,   // SIGUSR1
  kPreemptInt = 8,    // SIGINT
  kPreemptTerm = 16,  // SIGTERM
  kEndings = 31,      // those above: the run ends after this step
  kSaving = 32,       // this rank is writing a checkpoint in the background
  kSaved = 64,        // the main rank: there is a checkpoint of this attempt
  kNonFinite = 128,   // this rank has seen a loss or gradient that is not finite
};

constexpr uint32_t flag_of_signal(int signal) {
  return signal == SIGUSR1 ? kPreemptUser : signal == SIGINT ? kPreemptInt : kPreemptTerm;
}

// Of kEndings.
constexpr Ending ending_of(uint32_t flags) {
  if (flags >= kPreemptUser) return Ending::Preempted;
  if (flags >= kStopRequest) return Ending::Requested;
  return flags ? Ending::EarlyStop : Ending::Completed;
}

// 0 when no signal was among them.
constexpr int signal_of(uint32_t flags) {
  if (flags & kPreemptTerm) return SIGTERM;
  if (flags & kPreemptInt) return SIGINT;
  return flags & kPreemptUser ? SIGUSR1 : 0;
}

}  // namespace lockstep
