#include "catalog/run_list.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "catalog/index/catalog_index.h"
#include "catalog/parallel_for.h"
#include "catalog/run_files.h"
#include "catalog/run_logs.h"
#include "catalog/run_stamp.h"
#include "core/config/nearest_name.h"
#include "lockstep/error.h"
#include "tracking/log/event_log_reader.h"
#include "tracking/runs/run_directory.h"
#include "tracking/runs/run_trash.h"

namespace lockstep::catalog {
namespace {

namespace fs = std::filesystem;

constexpr size_t kRunsPerThread = 32, kMaxListReaders = 8;

std::vector<std::string> names_in(const fs::path& directory) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error))
    if (std::error_code ignored; it->is_directory(ignored))
      names.push_back(it->path().filename().string());
  std::ranges::sort(names);
  return names;
}

// nullptr if the directory does not contain a run.
RunSnapshot current_run(const fs::path& run_dir, IndexedRun* indexed, NameTable& names) {
  if (indexed && stamp_of(run_dir, indexed->summary) == indexed->stamp) {
    indexed->summary.dir = run_dir;
    return std::make_shared<const RunSummary>(std::move(indexed->summary));
  }
  return is_run(run_dir, Links::Follow) ? read_run(run_dir, names) : nullptr;
}

std::vector<RunSnapshot> current_runs(const fs::path& directory, NameTable& names) {
  const auto found = names_in(directory);
  auto indexed = read_catalog_index(catalog_index_path(directory), names);
  std::ranges::sort(indexed, [](const IndexedRun& a, const IndexedRun& b) {
    return a.summary.id < b.summary.id;
  });
  std::vector<IndexedRun*> known(found.size());
  auto it = indexed.begin();
  for (size_t i = 0; i < found.size(); ++i) {
    while (it != indexed.end() && it->summary.id < found[i]) ++it;
    if (it != indexed.end() && it->summary.id == found[i]) known[i] = &*it;
  }
  std::vector<RunSnapshot> runs(found.size());
  parallel_for(found.size(), std::min(found.size() / kRunsPerThread, kMaxListReaders),
               [&](size_t i) { runs[i] = current_run(directory / found[i], known[i], names); });
  std::erase(runs, nullptr);
  return runs;
}

Error ambiguous(const std::string& id, const std::vector<std::string>& ids) {
  constexpr size_t kShown = 5;
  const std::vector<std::string> shown(ids.begin(), ids.begin() + std::min(ids.size(), kShown));
  return config_error(fmt::format("run '{}' is not unique, {} begin with it: {}{}", id, ids.size(),
                                  fmt::join(shown, ", "), ids.size() > kShown ? ", ..." : ""));
}

// The ID in `ids` that matches `id`, or nullopt if none starts with it.
std::optional<std::string> match(const std::string& id, const std::set<std::string>& ids) {
  if (ids.contains(id)) return id;
  std::vector<std::string> begin_with;
  std::ranges::copy_if(ids, std::back_inserter(begin_with),
                       [&](const std::string& other) { return other.starts_with(id); });
  if (begin_with.size() > 1) throw ambiguous(id, begin_with);
  return begin_with.empty() ? std::nullopt : std::optional(begin_with.front());
}

template <class Matches>
std::vector<RunEntry> those_of(const std::vector<RunEntry>& entries, const Matches& matches) {
  std::vector<RunEntry> found;
  std::ranges::copy_if(entries, std::back_inserter(found),
                       [&](const RunEntry& entry) { return matches(entry.info()); });
  return found;
}

// The id of the run of `runs` whose directory `given` is; else `given`.
std::string id_of(const std::string& given, const fs::path& runs) {
  std::error_code error;
  fs::path path = given;
  if (!path.has_filename()) path = path.parent_path();  // a '/' at the end
  const bool is_its_run = path.has_parent_path() && fs::equivalent(path.parent_path(), runs, error);
  return is_its_run ? path.filename().string() : given;
}

}  // namespace

const RunInfo& RunEntry::info() const { return run->info_of(rank); }

std::map<std::string_view, const MetricTotals*> RunEntry::metrics() const {
  std::map<std::string_view, const MetricTotals*> all;
  for (const auto* source : {node, rank})
    if (source)
      for (const auto& metric : source->metrics)
        if (metric.count > 0) all[names->text(metric.name)] = &metric;
  return all;
}

Json RunEntry::config() const {
  if (!rank) return nullptr;
  NameTable own_names;
  LogIndex log({.path = log_path(run->dir, *rank), .number = rank->number}, own_names, nullptr);
  log.catch_up();
  return log.config();
}

std::vector<std::string> RunEntry::notes() const {
  std::vector<std::string> all = {run->job_problem};
  if (rank) all.push_back(rank->problem);
  all.push_back(run->end_problem);
  if (node) all.push_back(node->problem);
  std::erase(all, "");
  return all;
}

RunSnapshot read_run(const fs::path& run_dir, NameTable& names) {
  RunLogs logs(run_dir, names, nullptr, Links::Follow);
  logs.catch_up();
  return std::make_shared<const RunSummary>(summarize_run(logs, names));
}

std::vector<RunEntry> entries_of(const RunSnapshot& run, const NameTable& names) {
  std::vector<RunEntry> entries;
  std::set<int> nodes;
  for (const auto& source : run->sources) {
    if (source.is_node) continue;
    auto& entry = entries.emplace_back(RunEntry{.run = run, .rank = &source, .names = &names});
    const auto number = entry.info().node_rank;
    if (!nodes.insert(number).second) continue;
    for (const auto& other : run->sources)
      if (other.is_node && other.number == number) entry.node = &other;
  }
  std::error_code ignored;
  if (entries.empty() && (run->is_written || fs::exists(run->dir / "run.json", ignored)))
    entries.push_back({.run = run, .names = &names});
  return entries;
}

void verify_runs_directory(const fs::path& runs) {
  std::error_code ignored;
  if (!fs::is_directory(runs, ignored))
    throw config_error(fmt::format("there is no runs directory at '{}': train first, or set --dir",
                                   runs.string()));
}

RunList::RunList(fs::path runs) : directory_(std::move(runs)) { verify_runs_directory(directory_); }

const std::vector<RunEntry>& RunList::all() {
  if (entries_) return *entries_;
  std::vector<std::pair<double, RunSnapshot>> runs;
  for (auto& run : current_runs(directory_, names_)) runs.emplace_back(run->started(), run);
  std::ranges::stable_sort(runs, std::greater(), [](const auto& run) { return run.first; });
  entries_.emplace();
  for (const auto& [created, run] : runs) {
    auto entries = entries_of(run, names_);
    std::ranges::move(entries, std::back_inserter(*entries_));
  }
  return *entries_;
}

// The usual case, an ID that equals the name of its directory, does not read the others.
std::vector<RunEntry> RunList::find_by_directory(const std::string& id) {
  if (id.find('/') != std::string::npos || !is_inner_path(id)) return {};
  const auto run_dir = directory_ / id;
  if (!is_run(run_dir, Links::Follow)) return {};
  const auto entries = entries_of(read_run(run_dir, names_), names_);
  auto found = those_of(entries, [&](const RunInfo& info) { return info.id == id; });
  if (found.empty())
    found = those_of(entries, [&](const RunInfo& info) { return info.job_id == id; });
  return found;
}

std::vector<RunEntry> RunList::find(const std::string& given) {
  const auto id = id_of(given, directory_);
  if (auto found = find_by_directory(id); !found.empty()) return found;
  std::set<std::string> jobs, entries;
  for (const auto& entry : all()) {
    jobs.insert(entry.info().job_id);
    entries.insert(entry.info().id);
  }
  const auto is_entry = [&](const std::string& meant) {
    return those_of(*entries_, [&](const RunInfo& info) { return info.id == meant; });
  };
  if (entries.contains(id)) return is_entry(id);
  if (!id.empty())
    if (const auto job = match(id, jobs))
      return those_of(*entries_, [&](const RunInfo& info) { return info.job_id == *job; });
  if (!id.empty())
    if (const auto entry = match(id, entries)) return is_entry(*entry);
  const auto known = std::vector<std::string>(entries.begin(), entries.end());
  const auto nearest = nearest_name(id, known);
  throw config_error(
      fmt::format("there is no run '{}' in '{}'{}", id, directory_.string(),
                  nearest ? "; did you mean '" + *nearest + "'?" : "; see lockstep runs list"));
}

fs::path find_run_directory(const fs::path& runs, const std::string& id) {
  return RunList(runs).find(id).front().run->dir;
}

std::string why_in_use(const RunSummary& run) {
  if (run.num_ranks == 0 && run.state == RunState::Running) return "it is running";
  for (const auto& source : run.sources)
    if (!source.is_node && end_of_rank(run, &source).state == RunState::Running)
      return "it is running";
  if (std::ranges::any_of(tracking::rank_logs(run.dir), tracking::has_writer))
    return "a process writes its log";
  if (std::ranges::any_of(tracking::node_logs(run.dir), tracking::has_writer))
    return "its tracking agent is running";
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
  for (const auto& file : files) latest = std::fmax(latest, tracking::changed_at(file));
  return latest;
}

std::map<std::string, RunEnd> ends_to_sync(const fs::path& run_dir) {
  std::map<std::string, RunEnd> ends;
  NameTable names;
  for (const auto& entry : entries_of(read_run(run_dir, names), names)) {
    const auto end = entry.end();
    if (end.state == RunState::Running)
      throw environment_error(fmt::format(
          "{} is still running: its tracking agent feeds the sinks; sync when it has finished",
          run_dir.filename().string()));
    const auto& info = entry.info();
    ends[info.id] = end;
    ends.emplace(info.job_id, end);
  }
  if (ends.empty()) throw config_error(fmt::format("{} does not contain a run", run_dir.string()));
  return ends;
}

}  // namespace lockstep::catalog
