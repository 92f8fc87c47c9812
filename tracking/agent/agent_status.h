// What an agent notes for others to read, <run>/sinks/agent-00000.json: how its sinks fare, and
// which alerts it raised, for the agent that may take its place.
#pragma once

#include <filesystem>
#include <vector>

#include "tracking/agent/sink_thread.h"

namespace lockstep::tracking {

struct AlertsNote {
  double time = 0;  // unix seconds
  Json causes;      // AlertRules::causes()
};

// Throws Environment.
void write_agent_status(const std::filesystem::path& run_dir, int node_rank,
                        const std::vector<SinkStatus>& sinks, const AlertsNote& alerts);

// Empty when there is nothing, or nothing readable.
std::vector<SinkStatus> read_sink_status(const std::filesystem::path& run_dir, int node_rank);

// Without causes when there is nothing, or nothing readable.
AlertsNote read_alerts_note(const std::filesystem::path& run_dir, int node_rank);

// "mlflow is 12 kB behind: cannot connect to ..." for each that is not complete, joined by "; ".
std::string describe_incomplete(const std::vector<SinkStatus>& sinks);

}  // namespace lockstep::tracking
