#include "tracking/agent/run_entries.h"

#include <algorithm>
#include <limits>

#include "tracking/log/event_log_reader.h"
#include "tracking/runs/on_ranks.h"
#include "tracking/runs/run_directory.h"

namespace lockstep::tracking {
namespace {

namespace fs = std::filesystem;

struct RankLog {
  fs::path path;
  RunInfo info;
};

// With the identity of the first process that wrote each; `of_last`: of the last one, for which a segment
// is read.
std::vector<RankLog> identified_logs(const fs::path& run_dir, bool of_last) {
  std::vector<RankLog> logs;
  for (const auto& path : rank_logs(run_dir)) {
    LogTail tail(path, of_last ? std::numeric_limits<uint64_t>::max() : 0);
    while (!tail.identity() && tail.next()) {
    }
    if (tail.identity()) logs.push_back({path, *tail.identity()});
  }
  return logs;
}

bool is_wanted(const RunInfo& info, const Nodes& nodes) {
  return !nodes || nodes->contains(info.node_rank);
}

bool has_all_nodes(const TrackingConfig& config) {
  return config.ranks.kind == RankSelection::Kind::Main && config.system_nodes == SystemNodes::All;
}

EntryPlan shared_entry(const fs::path& run_dir, const std::vector<RankLog>& logs) {
  EntryPlan plan{
      .run_dir = run_dir, .id = logs[0].info.job_id, .log = logs[0].path, .labels = true};
  for (size_t i = 1; i < logs.size(); ++i) plan.others.push_back(logs[i].path);
  for (const auto& log : node_logs(run_dir)) plan.others.push_back(log);
  return plan;
}

}  // namespace

std::vector<fs::path> logs_of_nodes(const fs::path& run_dir, const Nodes& nodes) {
  std::vector<fs::path> paths;
  for (const auto& log : identified_logs(run_dir, /*of_last=*/false))
    if (is_wanted(log.info, nodes)) paths.push_back(log.path);
  return paths;
}

bool has_logs_of_other_nodes(const TrackingConfig& config) {
  return config.shared || has_all_nodes(config);
}

bool is_written_on(const fs::path& run_dir, int node_rank) {
  return std::ranges::any_of(logs_of_nodes(run_dir, std::set{node_rank}), has_writer);
}

std::vector<EntryPlan> plan_entries(const fs::path& run_dir, const TrackingConfig& config,
                                    const Nodes& nodes) {
  const auto logs = identified_logs(run_dir, /*of_last=*/true);
  if (logs.empty()) return {};
  if (config.shared) {
    if (!is_wanted(logs[0].info, nodes)) return {};
    return {shared_entry(run_dir, logs)};
  }
  std::vector<EntryPlan> plans;
  std::set<int> seen;
  for (const auto& log : logs) {
    EntryPlan plan{.run_dir = run_dir, .id = log.info.id, .log = log.path};
    plan.is_first = shows_progress(config.ranks, log.info.rank);
    const bool is_first_of_node = seen.insert(log.info.node_rank).second;
    plan.others = {node_log_path(run_dir, log.info.node_rank)};
    if (has_all_nodes(config)) plan.others = node_logs(run_dir);
    if (!is_first_of_node) plan.only_consoles = {log.info.rank};
    for (const auto& other : logs)
      if (other.path != log.path) plan.excluded_consoles.push_back(other.info.rank);
    if (is_wanted(log.info, nodes)) plans.push_back(std::move(plan));
  }
  return plans;
}

}  // namespace lockstep::tracking
