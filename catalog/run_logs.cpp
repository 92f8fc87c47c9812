#include "catalog/run_logs.h"

#include <algorithm>
#include <atomic>

#include "catalog/parallel_for.h"
#include "core/number_text.h"
#include "lockstep/error.h"
#include "tracking/runs/run_directory.h"

namespace lockstep::catalog {
namespace {

namespace fs = std::filesystem;
using Logs = std::vector<std::unique_ptr<LogIndex>>;

constexpr size_t kLogsPerThread = 4, kMaxReaders = 4;

bool is_own_file(const fs::path& path) {
  std::error_code ignored;
  return fs::symlink_status(path, ignored).type() == fs::file_type::regular;
}

// Without run.json, a run is named by its directory.
void read_written(RunSummary& run) {
  run.written = {.id = run.id, .name = run.id, .job_id = run.id};
  try {
    auto job = tracking::read_job(run.dir);
    run.is_written = job.has_value();
    if (job) run.written = std::move(*job);
  } catch (const Error& error) {
    run.job_problem = error.what();
  }
}

// The job's first log takes precedence over run.json, except for the number of ranks, which may have
// changed since the log began.
RunInfo job_info(const RunSummary& run) {
  auto info = run.written;
  info.id = info.job_id = run.id;
  for (const auto& source : run.sources) {
    if (source.is_node || source.info.id.empty()) continue;
    info.group = source.info.group;
    if (info.created == 0) info.created = source.info.created;
    if (!run.is_written) info.world_size = source.info.world_size;
    if (info.host.empty()) info.host = source.info.host;
    if (info.command.empty()) info.command = source.info.command;
    info.job_type = source.info.job_type;
    info.planned = source.info.planned;
    // The default if a job has several entries; not set by the user.
    if (info.group == run.id) info.group.reset();
    break;
  }
  return info;
}

// Reads the facts, and sets the end of `run` and its ranks. Requires its sources. The state of a
// run is that of its worst rank.
void add_end(RunSummary& run) {
  try {
    run.end_facts = tracking::read_end_facts(run.dir);
  } catch (const Error& error) {
    run.end_problem = error.what();
  }
  std::optional<RunEnd> worst;
  for (auto& source : run.sources) {
    if (source.is_node) continue;
    auto end = end_of_rank(run, &source);
    source.state = end.state;
    if (!worst || severity(end.state) > severity(worst->state)) worst = std::move(end);
  }
  if (!worst) worst = end_of_rank(run, nullptr);
  run.state = worst->state;
  if (has_ended(run.state)) run.end = std::move(worst);
}

bool is_among(const Logs& logs, const LogName& name) {
  return std::ranges::any_of(logs, [&](const auto& log) { return log->name().path == name.path; });
}

// Returns whether any of them changed.
bool catch_up_on(const Logs& logs, size_t num_threads) {
  std::atomic<bool> changed = false;
  parallel_for(logs.size(), num_threads, [&](size_t i) {
    if (logs[i]->catch_up()) changed = true;
  });
  return changed;
}

}  // namespace

RunEnd end_of_rank(const RunSummary& run, const SourceSummary* rank) {
  if (!rank) return resolve(run.end_facts);
  return resolve(run.end_facts, rank->end, rank->state == RunState::Running);
}

std::vector<LogName> log_names(const fs::path& run_dir, Links links) {
  std::vector<LogName> names;
  std::error_code ignored;
  const bool follows = links == Links::Follow;
  if (!follows && fs::is_symlink(run_dir / "events", ignored)) return names;
  for (const bool is_node : {false, true})
    for (const auto& path : is_node ? tracking::node_logs(run_dir) : tracking::rank_logs(run_dir))
      if (const auto number = number_of_log(path); number >= 0 && (follows || is_own_file(path)))
        names.push_back({.path = path, .is_node = is_node, .number = number});
  return names;
}

fs::path log_path(const fs::path& run_dir, const SourceSummary& source) {
  return source.is_node ? tracking::node_log_path(run_dir, source.number)
                        : tracking::event_log_path(run_dir, source.number);
}

int number_of_log(const fs::path& log) {
  const auto stem = log.stem().string();
  const auto dash = stem.rfind('-');
  if (dash == std::string::npos) return -1;
  return std::max(parse_number<int>(stem.substr(dash + 1)).value_or(-1), -1);
}

RunLogs::RunLogs(fs::path run_dir, NameTable& names, ColumnSpool* spool, Links links)
    : run_dir_(std::move(run_dir)), names_(names), spool_(spool), links_(links) {}

size_t RunLogs::num_logs() const {
  return look([](const auto& logs) { return logs.size(); });
}

bool RunLogs::find_logs() {
  const auto names = log_names(run_dir_, links_);
  const auto gone = std::erase_if(logs_, [&](const auto& log) {
    return std::ranges::none_of(names,
                                [&](const LogName& name) { return name.path == log->name().path; });
  });
  bool changed = gone > 0;
  for (const auto& name : names) {
    if (is_among(logs_, name)) continue;
    logs_.push_back(std::make_unique<LogIndex>(name, names_, spool_));
    changed = true;
  }
  if (changed)
    std::ranges::sort(logs_, {}, [](const auto& log) {
      return std::pair(log->name().is_node, log->name().number);
    });
  return changed;
}

// Reads many logs in parallel.
bool RunLogs::catch_up_all() {
  return catch_up_on(logs_, was_read_ ? 1 : std::min(logs_.size() / kLogsPerThread, kMaxReaders));
}

bool RunLogs::catch_up() {
  const WriterLock lock(mutex_);
  const bool found = find_logs();
  const bool changed = catch_up_all();
  was_read_ = true;
  return found || changed;
}

void RunLogs::read_once() {
  {
    const ReaderLock lock(mutex_);
    if (was_read_) return;
  }
  const WriterLock lock(mutex_);
  if (was_read_) return;
  find_logs();
  catch_up_all();
  was_read_ = true;
}

RunSummary summarize_run(const RunLogs& logs, NameTable& names) {
  RunSummary run{.id = logs.run_dir().filename().string(), .dir = logs.run_dir()};
  logs.look([&](const auto& all) {
    for (const auto& log : all) {
      run.sources.push_back(log->summary());
      if (run.config.empty() && !log->name().is_node)
        run.config = flatten_config(log->config(), names);
    }
  });
  read_written(run);
  if (run.is_written)
    for (auto& source : run.sources) source.info.world_size = run.written.world_size;
  run.info = job_info(run);
  run.tags = tracking::read_run_tags(run.dir);
  add_end(run);
  run.updated = run.info.created;
  for (const auto& source : run.sources) {
    run.updated = std::max(run.updated, source.updated);
    run.num_alerts += source.num_alerts;
    if (source.is_node) continue;
    ++run.num_ranks;
    if (source.step < run.step) continue;
    run.step = source.step;
    run.epoch = source.epoch;
  }
  return run;
}

}  // namespace lockstep::catalog
