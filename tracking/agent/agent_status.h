// What an agent notes about its sinks for others to read: <run>/sinks/agent-00000.json.
#pragma once

#include <filesystem>
#include <vector>

#include "tracking/agent/sink_thread.h"

namespace lockstep {

// Throws Environment.
void write_sink_status(const std::filesystem::path& run_dir, int node_rank,
                       const std::vector<SinkStatus>& sinks);

// Empty when there is nothing, or nothing readable.
std::vector<SinkStatus> read_sink_status(const std::filesystem::path& run_dir, int node_rank);

// "mlflow is 12 kB behind: cannot connect to ..." for each that is not complete, joined by "; ".
std::string describe_incomplete(const std::vector<SinkStatus>& sinks);

}  // namespace lockstep
