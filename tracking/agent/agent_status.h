// The status file of an agent, <run>/sinks/agent-00000.json: the state of its sinks, and the alerts
// that it raised, for an agent that may replace it.
#pragma once

#include <filesystem>
#include <vector>

#include "tracking/agent/sink_thread.h"

namespace lockstep::tracking {

struct AlertState {
  double time = 0;  // unix seconds
  Json causes;      // AlertRules::causes()
};

// Throws Environment.
void write_agent_status(const std::filesystem::path& run_dir, int node_rank,
                        const std::vector<SinkStatus>& sinks, const AlertState& alerts);

// Empty if the file is missing or unreadable.
std::vector<SinkStatus> read_sink_status(const std::filesystem::path& run_dir, int node_rank);

// Without causes if the file is missing or unreadable.
AlertState read_alert_state(const std::filesystem::path& run_dir, int node_rank);

// "mlflow is 12 kB behind: cannot connect to ..." for each incomplete sink, joined by "; ".
std::string describe_incomplete(const std::vector<SinkStatus>& sinks);

}  // namespace lockstep::tracking
