// Converts LibTorch's communication exceptions into a PeerError with the operation, the rank and
// the time waited. Only files of distributed/ include this.
#pragma once

#include <chrono>
#include <exception>
#include <string_view>

#include "core/system/progress_page.h"
#include "lockstep/error.h"
#include "lockstep/world.h"

namespace lockstep::distributed {

// True for exceptions from communication, false for those from computation or memory allocation.
// Decides by the type of the exception only.
bool is_communication_failure(const std::exception& error);

// Shows an operation in the rank's progress page during its lifetime.
class PublishedOperation {
 public:
  PublishedOperation(ProgressPage& progress, std::string_view name, std::string_view detail)
      : progress_(progress) {
    progress_.begin_operation(name, detail);
  }
  ~PublishedOperation() { progress_.end_operation(); }
  PublishedOperation(const PublishedOperation&) = delete;
  PublishedOperation& operator=(const PublishedOperation&) = delete;

 private:
  ProgressPage& progress_;
};

PeerError peer_error(const World& world, std::string_view operation,
                     std::chrono::steady_clock::time_point begin, const std::exception& error);

// Runs `body`: a collective, or a backward pass that contains some. All ranks call it in the same
// order. `detail`: shape and type of the data, for the progress page.
template <class Body>
auto fenced(const World& world, std::string_view operation, Body&& body,
            std::string_view detail = {}) {
  const auto begin = std::chrono::steady_clock::now();
  const PublishedOperation published(world.progress(), operation, detail);
  try {
    return body();
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    if (!is_communication_failure(error)) throw;
    throw peer_error(world, operation, begin, error);
  }
}

}  // namespace lockstep::distributed
