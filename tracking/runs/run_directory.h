// The directory of one job, <run.dir>/<job id>/:
//   run.json          description of the job, written by its main rank
//   config.yaml       the resolved configuration
//   events/           one event log per logging rank, rank-00003.lsev, and one per node's tracking
//                     agent, node-00000.lsev (system metrics, alerts); large ones continue in
//                     rank-00003.1.lsev, ... (tracking/log/event_log_segment.h)
//   code.json         uncommitted changes at its start (tracking/runs/code_state.h)
//   software.json     versions of what it was executed with (tracking/runs/software.h)
//   sinks/            delivery state of the agents (tracking/agent/feed.h)
//   logs/             output of the ranks (launcher)
//   checkpoints/      (trainer)
//   profiles/         traces of steps (trainer)
//   rank_losses.json  ranks that were lost, if the others continued (tracking/runs/rank_losses.h)
//   ends/, end.json   how the job ended (tracking/runs/end_facts.h)
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/run_info.h"

namespace lockstep::tracking {

std::filesystem::path event_log_path(const std::filesystem::path& run_dir, int rank);
std::filesystem::path node_log_path(const std::filesystem::path& run_dir, int node_rank);
// Existing logs, ordered by rank or node; for a log with segments, the first segment.
std::vector<std::filesystem::path> rank_logs(const std::filesystem::path& run_dir);
std::vector<std::filesystem::path> node_logs(const std::filesystem::path& run_dir);
std::filesystem::path sinks_path(const std::filesystem::path& run_dir);
std::filesystem::path logs_path(const std::filesystem::path& run_dir);
std::filesystem::path checkpoints_path(const std::filesystem::path& run_dir);

// Directories in `directory` whose name is `prefix` and a number, by that number; no symbolic
// links.
std::map<int, std::filesystem::path> numbered_directories(const std::filesystem::path& directory,
                                                          std::string_view prefix);

// A file in which the launcher stores a rank's output: attempt_<n>/<local rank>/stdout.log or, of the k-th start
// after the first in this attempt, attempt_<n>/<local rank>.<k>/stdout.log.
struct RankOutput {
  std::filesystem::path path;  // may not exist
  int attempt = 0, local_rank = 0;
  int start = 0;      // k; 0: the first
  int num_ranks = 0;  // of the node, in this attempt
  bool is_error = false;
};
// Of all attempts. `logs`: the directory of one node.
std::vector<RankOutput> rank_outputs(const std::filesystem::path& logs);

// Ids of the runs in a directory, the newest of a name first: ids end with the time.
std::vector<std::string> run_ids_in(const std::filesystem::path& runs);

// The content of run.json, or nullopt if it does not exist or is invalid.
std::optional<RunInfo> read_job(const std::filesystem::path& run_dir);

// A file in each directory of a run that was received from another machine
// (tracking/copies/run_receiver.h): {"sender": the name of its token}.
inline constexpr const char* kReceivedMark = "received.json";
bool is_received_run(const std::filesystem::path& run_dir);

}  // namespace lockstep::tracking
