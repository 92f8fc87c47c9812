// What the sinks of a job are fed with: its entries, and which event logs make up each.
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "tracking/agent/feed.h"
#include "tracking/tracking_config.h"

namespace lockstep {

// The logs of ranks whose node is `node_rank`, or all where nullopt; those that do not say yet
// whose they are are left out.
std::vector<std::filesystem::path> logs_of_node(const std::filesystem::path& run_dir,
                                                std::optional<int> node_rank);

// The entries that an agent of `node_rank` feeds; nullopt: all of them (`lockstep sync`).
// System metrics of a node go into the entry of its lowest logging rank; with `shared` every rank's
// log goes into one entry, which the agent of the lowest rank feeds.
std::vector<EntryPlan> plan_entries(const std::filesystem::path& run_dir,
                                    const TrackingConfig& config, std::optional<int> node_rank);

}  // namespace lockstep
