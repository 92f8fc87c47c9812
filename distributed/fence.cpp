#include "distributed/fence.h"

#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <string>

#include "distributed/backends/backends.h"
#include "distributed/backends/process_groups.h"
#include "distributed/shm/peers.h"

namespace lockstep::distributed {
namespace {

// The first line of LibTorch's message; source location and stack follow it.
std::string first_line(const std::exception& error) {
  const auto* c10_error = dynamic_cast<const c10::Error*>(&error);
  std::string text = c10_error ? c10_error->what_without_backtrace() : error.what();
  text = text.substr(0, text.find('\n'));
  if (text.starts_with('[') && text.find("] ") != std::string::npos)
    text.erase(0, text.find("] ") + 2);
  return text;
}

// Position of this rank in the training, e.g. " (step 3 of 5, backward)".
std::string describe_position(const ProgressSnapshot& progress) {
  if (progress.total_steps == 0) return fmt::format(" ({})", phase_name(progress.phase));
  return fmt::format(" (step {} of {}, {})", progress.current_step(), progress.total_steps,
                     phase_name(progress.phase));
}

}  // namespace

bool is_communication_failure(const std::exception& error) {
  return dynamic_cast<const c10::DistError*>(&error) ||
         dynamic_cast<const shm::PeerLost*>(&error) || is_gloo_exception(error);
}

PeerError peer_error(const World& world, std::string_view operation,
                     std::chrono::steady_clock::time_point begin, const std::exception& error) {
  const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - begin;
  return PeerError(fmt::format("{}: rank {} of {}{} waited {:.1f} s for its peers: {}{}", operation,
                               world.rank(), world.world_size(),
                               world.groups().is_of_host ? " on this host" : "", waited.count(),
                               first_line(error), describe_position(world.progress().snapshot())));
}

}  // namespace lockstep::distributed
