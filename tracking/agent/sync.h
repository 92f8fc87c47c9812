// Feeds sinks with a run that is over: after a crash, without a network at the time, or a sink that
// was added later.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tracking/agent/sink_thread.h"

namespace lockstep::tracking {

// The `tracking:` section of a recorded run, from its config.yaml; its plugins are loaded. The
// defaults where there is no such file. Throws Config when it cannot be read.
TrackingConfig read_tracking_config(const std::filesystem::path& run_dir);

struct SyncOptions {
  std::filesystem::path run_dir;
  TrackingConfig config;  // with the sinks to feed; the console is passed over
  Environment environment;
  std::map<std::string, RunEnd> ends;  // of its entries, by id (catalog/run_list.h)
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
  // Called about five times a second, from the calling thread.
  std::function<void(const std::vector<SinkStatus>&)> on_progress;
};

// Works until every sink has everything, gave up, or `timeout` has passed. What a sink has already
// is not sent again. When the result is not complete the process must end without static
// destruction (std::_Exit): a sink may hang in a call. The run must be over.
std::vector<SinkStatus> sync_run(const SyncOptions& options);

}  // namespace lockstep::tracking
