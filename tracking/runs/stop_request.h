// A request that a run stop after its current step, as a file in its directory:
// <run>/stop_request.json, {"time": 1795241389.0, "reason": "diverged"}. It can be written
// (`lockstep runs stop`, the dashboard) on any machine; the trainer's main rank polls for it and
// includes it in the vote of all ranks.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace lockstep::tracking {

struct StopRequest {
  double time = 0;     // unix seconds, of the request
  std::string reason;  // one line, may be empty
};

// Durably writes the request, replacing an earlier one. The caller checks whether the run is
// running. Throws Config for a run of another machine (tracking/runs/run_directory.h), and for a
// reason that is longer than 1024 bytes or not UTF-8; Environment if the file cannot be written.
void request_stop(const std::filesystem::path& run_dir, const std::string& reason);

// nullopt if there is no request. A corrupt file is a request without a reason.
std::optional<StopRequest> read_stop_request(const std::filesystem::path& run_dir);

// Removes the request: it was handled, or the run restarts. Throws Environment.
void clear_stop_request(const std::filesystem::path& run_dir);

}  // namespace lockstep::tracking
