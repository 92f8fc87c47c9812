#include "ui/run_logs.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <exception>
#include <mutex>
#include <thread>

#include "core/error.h"
#include "tracking/end_facts.h"
#include "tracking/run_directory.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

constexpr size_t kLogsPerThread = 4, kMostReaders = 4;

// A link could lead out of the directory of runs.
bool is_own_file(const fs::path& path) {
  std::error_code ignored;
  return fs::symlink_status(path, ignored).type() == fs::file_type::regular;
}

std::vector<LogName> log_names(const fs::path& run_dir) {
  std::vector<LogName> names;
  std::error_code ignored;
  if (fs::is_symlink(run_dir / "events", ignored)) return names;
  for (const bool is_node : {false, true})
    for (const auto& path : is_node ? node_logs(run_dir) : rank_logs(run_dir))
      if (const auto number = number_of_log(path); number >= 0 && is_own_file(path))
        names.push_back({.path = path, .is_node = is_node, .number = number});
  return names;
}

// The job as its directory says, which loses against what its first log says.
RunInfo job_info(const fs::path& run_dir, const std::vector<SourceSummary>& sources,
                 std::vector<std::string>& problems) {
  const auto id = run_dir.filename().string();
  RunInfo info{.id = id, .name = id, .job_id = id};
  try {
    if (auto job = read_job(run_dir)) info = std::move(*job);
    info.id = info.job_id = id;
  } catch (const Error& error) {
    problems.emplace_back(error.what());
  }
  for (const auto& source : sources) {
    if (source.is_node || source.info.id.empty()) continue;
    info.group = source.info.group;
    if (info.created == 0) info.created = source.info.created;
    info.world_size = std::max(info.world_size, source.info.world_size);
    if (info.host.empty()) info.host = source.info.host;
    if (info.command.empty()) info.command = source.info.command;
    info.job_type = source.info.job_type;
    info.planned = source.info.planned;
    // The default of several entries per job, so that they stay together: no choice of anybody.
    if (info.group == id) info.group.reset();
    break;
  }
  return info;
}

void add_end(RunSummary& run) {
  EndFacts facts;
  try {
    facts = read_end_facts(run.dir);
  } catch (const Error& error) {
    run.problems.emplace_back(error.what());
  }
  std::optional<RunEnd> worst;
  for (auto& source : run.sources) {
    if (source.is_node) continue;
    auto end = resolve(facts, source.end, source.state == RunState::Running);
    source.state = end.state;
    if (!worst || severity(end.state) > severity(worst->state)) worst = std::move(end);
  }
  if (!worst) worst = resolve(facts);
  run.state = worst->state;
  if (has_ended(run.state)) run.end = std::move(worst);
}

}  // namespace

int number_of_log(const fs::path& log) {
  const auto stem = log.stem().string();
  const auto dash = stem.rfind('-');
  int number = -1;
  if (dash == std::string::npos) return -1;
  const auto* end = stem.data() + stem.size();
  const auto parsed = std::from_chars(stem.data() + dash + 1, end, number);
  return parsed.ec == std::errc{} && parsed.ptr == end && number >= 0 ? number : -1;
}

RunLogs::RunLogs(fs::path run_dir, NameTable& names, ColumnSpool* spool)
    : run_dir_(std::move(run_dir)), names_(names), spool_(spool) {}

size_t RunLogs::num_logs() const {
  return look([](const auto& logs) { return logs.size(); });
}

bool RunLogs::find_logs() {
  const auto names = log_names(run_dir_);
  const auto is_there = [&](const LogName& name) {
    return std::ranges::any_of(logs_,
                               [&](const auto& log) { return log->name().path == name.path; });
  };
  const auto gone = std::erase_if(logs_, [&](const auto& log) {
    return std::ranges::none_of(names,
                                [&](const LogName& name) { return name.path == log->name().path; });
  });
  bool changed = gone > 0;
  for (const auto& name : names) {
    if (is_there(name)) continue;
    logs_.push_back(std::make_unique<LogIndex>(name, names_, spool_));
    changed = true;
  }
  if (changed)
    std::ranges::sort(logs_, {}, [](const auto& log) {
      return std::pair(log->name().is_node, log->name().number);
    });
  return changed;
}

// Many logs are read side by side.
bool RunLogs::catch_up_all() {
  std::atomic<size_t> next = 0;
  std::atomic<bool> changed = false;
  std::exception_ptr failure;
  std::mutex failure_mutex;  // guards failure
  const auto work = [&] {
    try {
      for (size_t i = next++; i < logs_.size(); i = next++)
        if (logs_[i]->catch_up()) changed = true;
    } catch (...) {
      const std::lock_guard lock(failure_mutex);
      failure = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> readers;
    const auto wanted = was_read_ ? 0 : std::min(logs_.size() / kLogsPerThread, kMostReaders - 1);
    const auto useful = std::min<size_t>(wanted, std::thread::hardware_concurrency());
    for (size_t i = 1; i < useful; ++i) readers.emplace_back(work);
    work();
  }
  if (failure) std::rethrow_exception(failure);
  return changed;
}

bool RunLogs::catch_up() {
  const std::unique_lock lock(mutex_);
  const bool found = find_logs();
  const bool changed = catch_up_all();
  was_read_ = true;
  return found || changed;
}

void RunLogs::read_once() {
  {
    const std::shared_lock lock(mutex_);
    if (was_read_) return;
  }
  const std::unique_lock lock(mutex_);
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
  run.info = job_info(run.dir, run.sources, run.problems);
  run.tags = read_run_tags(run.dir);
  if (!run.tags.problem.empty()) run.problems.push_back(run.tags.problem);
  add_end(run);
  run.updated = run.info.created;
  for (const auto& source : run.sources) {
    if (!source.problem.empty()) run.problems.push_back(source.problem);
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

}  // namespace lockstep
