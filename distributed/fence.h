// Turns what LibTorch throws when a peer is gone into a PeerError that says which operation, which
// rank and how long. Only files of distributed/ include this.
#pragma once

#include <chrono>
#include <exception>
#include <string>

#include "core/error.h"
#include "distributed/world.h"

namespace lockstep {

// True when LibTorch's exception speaks of communication rather than of arithmetic or memory.
bool is_communication_failure(const std::exception& error);

PeerError peer_error(const World& world, const std::string& operation,
                     std::chrono::steady_clock::time_point begin, const std::exception& error);

// Runs `body`, one collective or a backward pass that contains some.
template <class Body>
auto fenced(const World& world, const std::string& operation, Body&& body) {
  const auto begin = std::chrono::steady_clock::now();
  try {
    return body();
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    if (!is_communication_failure(error)) throw;
    throw peer_error(world, operation, begin, error);
  }
}

}  // namespace lockstep
