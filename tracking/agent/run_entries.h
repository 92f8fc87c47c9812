// The entries of a job that are delivered to sinks, and the event logs of each.
#pragma once

#include <filesystem>
#include <optional>
#include <set>
#include <vector>

#include "tracking/agent/feed.h"
#include "tracking/config/tracking_config.h"

namespace lockstep::tracking {

using Nodes = std::optional<std::set<int>>;  // nullopt: all

// The logs of ranks of `nodes`. Omits logs that have no identity record yet.
std::vector<std::filesystem::path> logs_of_nodes(const std::filesystem::path& run_dir,
                                                 const Nodes& nodes);

// Whether entries have logs of other nodes, which may appear later.
bool has_logs_of_other_nodes(const TrackingConfig& config);

// Whether a process writes the log of a rank of this node, that is, whether a job of the run is
// active.
bool is_written_on(const std::filesystem::path& run_dir, int node_rank);

// The entries that an agent feeds for `nodes` (`lockstep sync`: for all). System metrics of a node
// belong to the entry of its lowest logging rank. With `shared`, the logs of all ranks form one
// entry, which the agent of the lowest rank feeds.
std::vector<EntryPlan> plan_entries(const std::filesystem::path& run_dir,
                                    const TrackingConfig& config, const Nodes& nodes);

}  // namespace lockstep::tracking
