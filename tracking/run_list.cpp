#include "tracking/run_list.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "core/error.h"
#include "core/nearest_name.h"
#include "tracking/end_facts.h"
#include "tracking/run_directory.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> sorted_children(const fs::path& dir) {
  std::vector<fs::path> children;
  std::error_code error;
  for (fs::directory_iterator it(dir, error), end; !error && it != end; it.increment(error))
    children.push_back(it->path());
  std::ranges::sort(children);
  return children;
}

void add_value(MetricSummary& metric, int64_t step, double value) {
  const bool first = metric.count == 0;
  metric.min = first ? value : std::fmin(metric.min, value);
  metric.max = first ? value : std::fmax(metric.max, value);
  metric.last = value;
  metric.step = step;
  ++metric.count;
}

std::map<std::string, MetricSummary> summarize(const LogContents& log) {
  std::vector<MetricSummary> by_key(log.keys.size());
  for (const auto& row : log.rows)
    for (const auto& [key, value] : row.values) add_value(by_key[key], row.step, value);
  std::map<std::string, MetricSummary> metrics;
  for (size_t key = 0; key < by_key.size(); ++key)
    if (by_key[key].count > 0) metrics[log.keys[key]] = by_key[key];
  return metrics;
}

// A file that cannot be read is a note about its run; the other runs are still listed.
template <class Read>
void read_or_note(std::vector<std::string>& notes, const Read& read) {
  try {
    read();
  } catch (const Error& error) {
    notes.emplace_back(error.what());
  }
}

// A run directory that lost its run.json still has its name.
RunInfo job_of(const fs::path& run_dir, std::vector<std::string>& notes) {
  const auto name = run_dir.filename().string();
  std::optional<RunInfo> job;
  read_or_note(notes, [&] { job = read_job(run_dir); });
  return job.value_or(RunInfo{.id = name, .name = name, .job_id = name});
}

void take_log(LogContents&& log, bool alive, RunRecord& record) {
  const auto name = record.log.filename().string();
  if (!log.problem.empty()) record.notes.push_back(fmt::format("{}: {}", name, log.problem));
  if (log.torn && !alive)
    record.notes.push_back(
        fmt::format("{}: damaged after {} records ({} bytes), which is what is shown", name,
                    log.num_frames, log.good_bytes));
  record.metrics = summarize(log);
  for (const auto& row : log.rows) record.step = std::max(record.step, row.step);
  if (log.info) record.info = std::move(*log.info);
  record.config = std::move(log.config);
  record.summary = std::move(log.summary);
}

// `log_path` is empty for a job that has no event log.
RunRecord read_entry(const fs::path& run_dir, const fs::path& log_path) {
  RunRecord record{.dir = run_dir, .log = log_path};
  record.info = job_of(run_dir, record.notes);
  const bool alive = has_writer(log_path);  // first: see has_writer()
  EndFacts facts;
  std::optional<RunEnd> logged;
  read_or_note(record.notes, [&] { facts = read_end_facts(run_dir); });
  if (!log_path.empty())
    read_or_note(record.notes, [&] {
      auto log = read_event_log(log_path);
      logged = log.end;
      take_log(std::move(log), alive, record);
    });
  record.end = resolve(facts, logged, alive);
  return record;
}

// System metrics are shown with the lowest logging rank of their node.
void add_node_log(RunRecord& record) {
  const auto path = node_log_path(record.dir, record.info.node_rank);
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return;
  record.node_log = path;
  read_or_note(record.notes, [&] { record.metrics.merge(summarize(read_event_log(path))); });
}

void read_job_entries(const fs::path& run_dir, std::vector<RunRecord>& records) {
  const auto logs = rank_logs(run_dir);
  std::error_code ignored;
  if (logs.empty() && !fs::exists(run_dir / "run.json", ignored)) return;
  std::set<int> nodes;
  for (const auto& log : logs) {
    records.push_back(read_entry(run_dir, log));
    if (nodes.insert(records.back().info.node_rank).second) add_node_log(records.back());
  }
  if (logs.empty()) records.push_back(read_entry(run_dir, {}));
}

Error ambiguous(const std::string& id, const std::vector<std::string>& ids) {
  constexpr size_t kShown = 5;
  const std::vector<std::string> shown(ids.begin(), ids.begin() + std::min(ids.size(), kShown));
  return config_error(fmt::format("run '{}' is not unique, {} begin with it: {}{}", id, ids.size(),
                                  fmt::join(shown, ", "), ids.size() > kShown ? ", ..." : ""));
}

// The one id that is meant among `ids`, or nullopt when none begins with `id`.
std::optional<std::string> match(const std::string& id, const std::set<std::string>& ids) {
  if (ids.contains(id)) return id;
  std::vector<std::string> begin_with;
  std::ranges::copy_if(ids, std::back_inserter(begin_with),
                       [&](const std::string& other) { return other.starts_with(id); });
  if (begin_with.size() > 1) throw ambiguous(id, begin_with);
  return begin_with.empty() ? std::nullopt : std::optional(begin_with.front());
}

}  // namespace

std::vector<RunRecord> list_job(const fs::path& run_dir) {
  std::vector<RunRecord> records;
  read_job_entries(run_dir, records);
  return records;
}

std::vector<RunRecord> list_runs(const fs::path& dir) {
  std::error_code ignored;
  if (!fs::is_directory(dir, ignored))
    throw config_error(fmt::format(
        "there is no directory of runs at '{}': train something first, or name it with --dir",
        dir.string()));
  std::vector<RunRecord> records;
  for (const auto& child : sorted_children(dir)) read_job_entries(child, records);
  std::map<fs::path, double> started;
  for (const auto& record : records)
    started[record.dir] = std::fmax(started[record.dir], record.info.created);
  std::ranges::stable_sort(records, std::greater(),
                           [&](const RunRecord& record) { return started.at(record.dir); });
  return records;
}

std::vector<RunRecord> find_run(const fs::path& dir, const std::string& id) {
  auto records = list_runs(dir);
  std::set<std::string> jobs, entries;
  for (const auto& record : records) {
    jobs.insert(record.info.job_id);
    entries.insert(record.info.id);
  }
  const auto keep = [&](auto matches) {
    std::erase_if(records, [&](const RunRecord& record) { return !matches(record.info); });
    return records;
  };
  if (entries.contains(id)) return keep([&](const RunInfo& info) { return info.id == id; });
  if (!id.empty())
    if (const auto job = match(id, jobs))
      return keep([&](const RunInfo& info) { return info.job_id == *job; });
  if (!id.empty())
    if (const auto entry = match(id, entries))
      return keep([&](const RunInfo& info) { return info.id == *entry; });
  const auto known = std::vector<std::string>(entries.begin(), entries.end());
  const auto nearest = nearest_name(id, known);
  throw config_error(
      fmt::format("there is no run '{}' in '{}'{}", id, dir.string(),
                  nearest ? "; did you mean '" + *nearest + "'?" : "; see lockstep runs list"));
}

}  // namespace lockstep
