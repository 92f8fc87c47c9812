#include "catalog/run_use.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "catalog/run_list.h"
#include "core/error.h"
#include "tracking/log/event_log_reader.h"
#include "tracking/runs/run_directory.h"
#include "tracking/runs/run_trash.h"

namespace lockstep {

namespace fs = std::filesystem;

std::string why_in_use(const RunSummary& run) {
  if (run.num_ranks == 0 && run.state == RunState::Running) return "it is running";
  for (const auto& source : run.sources)
    if (!source.is_node && end_of_rank(run, &source).state == RunState::Running)
      return "it is running";
  if (std::ranges::any_of(rank_logs(run.dir), has_writer)) return "a process writes its log";
  if (std::ranges::any_of(node_logs(run.dir), has_writer)) return "its tracking agent is at work";
  return "";
}

double last_written(const RunSummary& run) {
  auto latest = run.started();
  std::vector<fs::path> files;
  std::error_code error;
  for (fs::directory_iterator it(run.dir / "events", error), end; !error && it != end;
       it.increment(error))
    files.push_back(it->path());  // all segments of all logs
  for (const char* name : {"run.json", "end.json", "checkpoints"}) files.push_back(run.dir / name);
  for (const auto& file : files) latest = std::fmax(latest, changed_at(file));
  return latest;
}

std::map<std::string, RunEnd> ends_to_sync(const fs::path& run_dir) {
  std::map<std::string, RunEnd> ends;
  NameTable names;
  for (const auto& entry : entries_of(read_run(run_dir, names), names)) {
    const auto end = entry.end();
    if (end.state == RunState::Running)
      throw environment_error(fmt::format(
          "{} is still running: its tracking agent feeds the sinks; sync when it is over",
          run_dir.filename().string()));
    const auto& info = entry.info();
    ends[info.id] = end;
    ends.emplace(info.job_id, end);
  }
  if (ends.empty()) throw config_error(fmt::format("{} holds no run", run_dir.string()));
  return ends;
}

}  // namespace lockstep
