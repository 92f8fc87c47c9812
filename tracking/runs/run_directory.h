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
#include <vector>

#include "tracking/log/run_info.h"

namespace lockstep {

std::filesystem::path event_log_path(const std::filesystem::path& run_dir, int rank);
std::filesystem::path node_log_path(const std::filesystem::path& run_dir, int node_rank);
// Those that exist, in the order of ranks, or of nodes; of a log with segments the first.
std::vector<std::filesystem::path> rank_logs(const std::filesystem::path& run_dir);
std::vector<std::filesystem::path> node_logs(const std::filesystem::path& run_dir);
std::filesystem::path sinks_path(const std::filesystem::path& run_dir);
std::filesystem::path logs_path(const std::filesystem::path& run_dir);
std::filesystem::path checkpoints_path(const std::filesystem::path& run_dir);

// Makes the directory and writes run.json and config.yaml durably. On one that exists the run goes
// on: `created` stays and what was told of its end is removed. Called by the main rank, before the
// other ranks open their logs. Throws Environment, with one line, when it cannot be written
// (read-only, full disk, ...); then nothing of a new run is left.
void create_run_directory(const std::filesystem::path& run_dir, const RunInfo& job,
                          const Json& config);

// What run.json says, or nullopt when there is none or it is not readable as one.
std::optional<RunInfo> read_job(const std::filesystem::path& run_dir);

}  // namespace lockstep
