// Asking a run to stop at its next step, by a file in its directory: <run>/stop_request.json,
// {"time": 1795241389.0, "reason": "diverged"}. Who asks (`lockstep runs stop`, the dashboard) need
// not be on the same machine; the trainer's main rank looks for it and brings it into the vote of
// all ranks.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace lockstep::tracking {

struct StopRequest {
  double time = 0;     // unix seconds, when it was asked
  std::string reason;  // one line, may be empty
};

// Writes the request durably; a later one replaces an earlier one. Whether the run goes on at all
// is for the caller to say. Throws Config for a reason of more than 1024 bytes or that is not
// UTF-8, Environment when the file cannot be written.
void request_stop(const std::filesystem::path& run_dir, const std::string& reason);

// nullopt when nobody asked. A file that is damaged is a request without a reason: somebody asked.
std::optional<StopRequest> read_stop_request(const std::filesystem::path& run_dir);

// Removes it: the request was heard, or the run begins anew. Throws Environment.
void clear_stop_request(const std::filesystem::path& run_dir);

}  // namespace lockstep::tracking
