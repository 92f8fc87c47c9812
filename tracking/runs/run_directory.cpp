#include "tracking/runs/run_directory.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <functional>
#include <vector>

#include "core/bounded_json.h"
#include "core/config/config_text.h"
#include "core/number_text.h"
#include "core/system/durable_file.h"
#include "lockstep/config_fields.h"
#include "lockstep/tracker.h"
#include "tracking/runs/end_facts.h"
#include "tracking/runs/git_state.h"

namespace lockstep::tracking {
namespace {

namespace fs = std::filesystem;

fs::path job_path(const fs::path& run_dir) { return run_dir / "run.json"; }
fs::path config_path(const fs::path& run_dir) { return run_dir / "config.yaml"; }

// `path` and its parents, as far as they do not exist; the deepest first.
std::vector<fs::path> missing_directories(fs::path path) {
  std::vector<fs::path> missing;
  std::error_code ignored;
  for (; !path.empty() && !fs::exists(path, ignored); path = path.parent_path())
    missing.push_back(path);
  return missing;
}

void write_run(const fs::path& run_dir, const RunInfo& job, const Json& config) {
  make_directories(run_dir / "events");
  tracking::clear_end(run_dir);
  const auto before = tracking::read_job(run_dir);
  auto created = before ? before->created : job.created;
  if (created == 0) created = static_cast<double>(std::time(nullptr));
  Json json = {{"id", job.job_id},
               {"name", job.name},
               {"group", ConfigValue<std::optional<std::string>>::dump(job.group)},
               {"world_size", job.world_size},
               {"created", created},
               {"host", job.host},
               {"command", job.command}};
  std::error_code ignored;
  if (const auto git = tracking::read_git_state(fs::current_path(ignored)))
    json["git"] = {{"commit", git->commit}, {"branch", git->branch}};
  write_file_durably(config_path(run_dir), to_yaml(config));
  write_file_durably(job_path(run_dir),
                     json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

// rank-00003.lsev, but not its continuation rank-00003.1.lsev.
bool is_first_segment(const fs::path& path) {
  return path.extension() == ".lsev" && !path.stem().has_extension();
}

std::vector<fs::path> event_logs_named(const fs::path& run_dir, const std::string& begin) {
  std::vector<fs::path> logs;
  std::error_code error;
  for (fs::directory_iterator it(run_dir / "events", error), end; !error && it != end;
       it.increment(error))
    if (is_first_segment(it->path()) && it->path().filename().string().starts_with(begin))
      logs.push_back(it->path());
  std::ranges::sort(logs);
  return logs;
}

}  // namespace

fs::path event_log_path(const fs::path& run_dir, int rank) {
  return run_dir / "events" / fmt::format("rank-{:05}.lsev", rank);
}

fs::path node_log_path(const fs::path& run_dir, int node_rank) {
  return run_dir / "events" / fmt::format("node-{:05}.lsev", node_rank);
}

std::vector<fs::path> rank_logs(const fs::path& run_dir) {
  return event_logs_named(run_dir, "rank-");
}

std::vector<fs::path> node_logs(const fs::path& run_dir) {
  return event_logs_named(run_dir, "node-");
}

fs::path sinks_path(const fs::path& run_dir) { return run_dir / "sinks"; }

fs::path logs_path(const fs::path& run_dir) { return run_dir / "logs"; }

fs::path checkpoints_path(const fs::path& run_dir) { return run_dir / "checkpoints"; }

std::map<int, fs::path> numbered_directories(const fs::path& directory, std::string_view prefix) {
  std::map<int, fs::path> found;
  std::error_code error, ignored;
  for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
    const auto name = it->path().filename().string();
    if (!name.starts_with(prefix)) continue;
    const auto number = parse_number<int>(std::string_view(name).substr(prefix.size()));
    if (number && *number >= 0 && it->symlink_status(ignored).type() == fs::file_type::directory)
      found.emplace(*number, it->path());
  }
  return found;
}

std::vector<RankOutput> rank_outputs(const fs::path& logs) {
  std::vector<RankOutput> outputs;
  for (const auto& [attempt, attempt_dir] : numbered_directories(logs, "attempt_")) {
    const auto ranks = numbered_directories(attempt_dir, "");
    for (const auto& [local_rank, rank_dir] : ranks) {
      auto starts = numbered_directories(attempt_dir, fmt::format("{}.", local_rank));
      starts[0] = rank_dir;
      for (const auto& [start, dir] : starts)
        for (const bool is_error : {false, true})
          outputs.push_back({.path = dir / (is_error ? "stderr.log" : "stdout.log"),
                             .attempt = attempt,
                             .local_rank = local_rank,
                             .start = start,
                             .num_ranks = static_cast<int>(ranks.size()),
                             .is_error = is_error});
    }
  }
  return outputs;
}

std::vector<std::string> run_ids_in(const fs::path& runs) {
  std::vector<std::string> ids;
  std::error_code error, ignored;
  for (fs::directory_iterator it(runs, error), end; !error && it != end; it.increment(error))
    if (fs::exists(job_path(it->path()), ignored)) ids.push_back(it->path().filename().string());
  std::ranges::sort(ids, std::greater());
  return ids;
}

std::optional<RunInfo> read_job(const fs::path& run_dir) {
  std::error_code ignored;
  if (!fs::exists(job_path(run_dir), ignored)) return std::nullopt;
  return run_info_from_json(parse_json(read_file(job_path(run_dir))));
}

bool is_received_run(const fs::path& run_dir) {
  std::error_code ignored;
  return fs::exists(run_dir / kReceivedMark, ignored);
}

}  // namespace lockstep::tracking

namespace lockstep {

void create_run_directory(const std::filesystem::path& run_dir, const RunInfo& job,
                          const Json& config) {
  std::error_code ignored;
  const bool is_new = !std::filesystem::exists(tracking::job_path(run_dir), ignored);
  const auto missing = tracking::missing_directories(run_dir / "events");
  try {
    tracking::write_run(run_dir, job, config);
  } catch (...) {
    if (is_new) std::filesystem::remove(tracking::config_path(run_dir), ignored);
    for (const auto& path : missing) std::filesystem::remove(path, ignored);  // only if it is empty
    throw;
  }
}

}  // namespace lockstep
