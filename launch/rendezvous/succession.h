// How long launchers wait for each other when the coordinator's node is lost, and the reason for which others
// are refused, with --on-rank-loss continue.
#pragma once

#include <chrono>

#include "launch/protocol/rendezvous_options.h"

namespace lockstep::launch {

inline constexpr const char* kContinued = "the job has continued without this node";
inline constexpr const char* kContinuedByOther = "another node continues the job without this one";

// The difference between the times at which two nodes notice that a third one is silent: a heartbeat, and
// how often they check.
inline std::chrono::milliseconds time_for_majority(const RendezvousOptions& timing) {
  return timing.keep_alive + timing.silence_timeout() / 4;
}

// Until the other nodes have noticed the loss and joined the new coordinator. A node waits as long for one
// that might become the coordinator.
inline std::chrono::milliseconds time_to_join(const RendezvousOptions& timing) {
  return time_for_majority(timing) + std::chrono::seconds(1);
}

}  // namespace lockstep::launch
