// Delivers a finished run to sinks: after a crash, after a network outage, or to a sink that was
// added later.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tracking/agent/sink_thread.h"

namespace lockstep::tracking {

// Reads the `tracking:` section from the config.yaml of a recorded run, and loads its plugins.
// Returns the defaults if the file does not exist. Throws Config if it cannot be read. `wanted`: the
// only sinks that are needed, as in a run file; if Lockstep has all of them, the plugins are not
// loaded, and their sinks are left out.
TrackingConfig read_tracking_config(const std::filesystem::path& run_dir,
                                    const std::vector<ConfigNode>& wanted = {});

struct SyncOptions {
  std::filesystem::path run_dir;
  TrackingConfig config;  // with the sinks to feed; the console sink is skipped
  Environment environment;
  std::map<std::string, RunEnd> ends;  // of the run's entries, by id (catalog/run_list.h)
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
  // Called on the calling thread, about five times a second.
  std::function<void(const std::vector<SinkStatus>&)> on_progress;
};

// Delivers records until every sink has received everything or gave up, or `timeout` has passed.
// Records that a sink has already are not sent again. If the result is not complete, the process
// must exit without static destruction (std::_Exit), because a sink may hang in a call. Requires a
// run that is over.
std::vector<SinkStatus> sync_run(const SyncOptions& options);

}  // namespace lockstep::tracking
