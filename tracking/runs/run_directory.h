// The directory of one job, <run.dir>/<job id>/:
//   run.json          who the job is, written by its main rank
//   config.yaml       what its configuration resolved to
//   events/           one event log per logging rank, rank-00003.lsev, and one per node of its
//                     tracking agent, node-00000.lsev (system metrics, alerts); large ones go on in
//                     rank-00003.1.lsev, ... (tracking/log/event_log_segment.h)
//   sinks/            what the agents have delivered (tracking/agent/feed.h)
//   logs/             output of the ranks (launcher)
//   checkpoints/      (trainer)
//   ends/, end.json   how the job ended (tracking/runs/end_facts.h)
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "lockstep/run_info.h"

namespace lockstep::tracking {

std::filesystem::path event_log_path(const std::filesystem::path& run_dir, int rank);
std::filesystem::path node_log_path(const std::filesystem::path& run_dir, int node_rank);
// Those that exist, in the order of ranks, or of nodes; of a log with segments the first.
std::vector<std::filesystem::path> rank_logs(const std::filesystem::path& run_dir);
std::vector<std::filesystem::path> node_logs(const std::filesystem::path& run_dir);
std::filesystem::path sinks_path(const std::filesystem::path& run_dir);
std::filesystem::path logs_path(const std::filesystem::path& run_dir);
std::filesystem::path checkpoints_path(const std::filesystem::path& run_dir);

// Directories within `directory` whose name is `prefix` and a number, by that number; no links.
std::map<int, std::filesystem::path> numbered_directories(const std::filesystem::path& directory,
                                                          std::string_view prefix);

// A file in which the launcher keeps what a rank prints: attempt_<n>/<local rank>/stdout.log.
struct RankOutput {
  std::filesystem::path path;  // may not be there
  int attempt = 0, local_rank = 0;
  int num_ranks = 0;  // of the node, in this attempt
  bool is_error = false;
};
// Of all attempts, `logs` being the directory of one node.
std::vector<RankOutput> rank_outputs(const std::filesystem::path& logs);

// What run.json says, or nullopt when there is none or it is not readable as one.
std::optional<RunInfo> read_job(const std::filesystem::path& run_dir);

}  // namespace lockstep::tracking
