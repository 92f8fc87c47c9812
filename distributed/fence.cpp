#include "distributed/fence.h"

#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <typeinfo>

#include "distributed/shm/peers.h"

namespace lockstep::distributed {
namespace {

// LibTorch's messages carry the place and a stack behind the first line; a person needs the first
// line.
std::string first_line(const std::exception& error) {
  const auto* c10_error = dynamic_cast<const c10::Error*>(&error);
  std::string text = c10_error ? c10_error->what_without_backtrace() : error.what();
  text = text.substr(0, text.find('\n'));
  if (text.starts_with('[') && text.find("] ") != std::string::npos)
    text.erase(0, text.find("] ") + 2);
  return text;
}

// Where this rank was: " (step 3 of 5, backward)".
std::string place_of(const ProgressSnapshot& progress) {
  if (progress.total_steps == 0) return fmt::format(" ({})", phase_name(progress.phase));
  return fmt::format(" (step {} of {}, {})", progress.step + 1, progress.total_steps,
                     phase_name(progress.phase));
}

// Failures of communication that LibTorch 2.11 throws as a plain c10::Error, without a type that says
// so: all of FileStore's. tests/distributed/fence_test.cpp provokes each.
constexpr std::array<std::string_view, 2> kUntypedFailures = {"Wait timeout",
                                                              "Timeout waiting for key"};

// Gloo's exceptions; its headers are for gloo_backend.cpp alone.
bool is_of_gloo(const std::exception& error) {
  return std::string_view(typeid(error).name()).starts_with("N4gloo");
}

}  // namespace

bool is_communication_failure(const std::exception& error) {
  if (dynamic_cast<const c10::DistError*>(&error) || dynamic_cast<const shm::PeerLost*>(&error) ||
      is_of_gloo(error))
    return true;
  return std::ranges::any_of(kUntypedFailures, [&](std::string_view words) {
    return std::string_view(error.what()).starts_with(words);
  });
}

PeerError peer_error(const World& world, std::string_view operation,
                     std::chrono::steady_clock::time_point begin, const std::exception& error) {
  const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - begin;
  return PeerError(fmt::format("{}: rank {} of {} waited {:.1f} s for its peers: {}{}", operation,
                               world.rank(), world.world_size(), waited.count(), first_line(error),
                               place_of(world.progress().snapshot())));
}

}  // namespace lockstep::distributed
