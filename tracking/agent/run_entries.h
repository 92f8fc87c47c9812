// What the sinks of a job are fed with: its entries, and which event logs make up each.
#pragma once

#include <filesystem>
#include <optional>
#include <set>
#include <vector>

#include "tracking/agent/feed.h"
#include "tracking/config/tracking_config.h"

namespace lockstep::tracking {

using Nodes = std::optional<std::set<int>>;  // nullopt: all

// The logs of ranks of `nodes`; those that do not say yet whose they are are left out.
std::vector<std::filesystem::path> logs_of_nodes(const std::filesystem::path& run_dir,
                                                 const Nodes& nodes);

// Whether a process writes the log of a rank of this node: a job is at work on the run.
bool is_written_on(const std::filesystem::path& run_dir, int node_rank);

// The entries that an agent feeds for `nodes` (`lockstep sync`: for all).
// System metrics of a node go into the entry of its lowest logging rank; with `shared` every rank's
// log goes into one entry, which the agent of the lowest rank feeds.
std::vector<EntryPlan> plan_entries(const std::filesystem::path& run_dir,
                                    const TrackingConfig& config, const Nodes& nodes);

}  // namespace lockstep::tracking
