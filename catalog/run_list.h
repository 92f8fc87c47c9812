// All runs of a directory as they are now, for a command. Runs in the dashboard's index that did
// not change since are not read again (catalog/index/catalog_index.h); nothing is written.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "catalog/run_logs.h"

namespace lockstep::catalog {

// One line of the list: a rank that logs, or a job without an event log.
struct RunEntry {
  RunSnapshot run;
  const SourceSummary* rank = nullptr;  // nullptr when the job has no event log (yet)
  // The node's tracking agent, where this entry shows the node's system metrics; else nullptr.
  const SourceSummary* node = nullptr;
  const NameTable* names = nullptr;

  const RunInfo& info() const;
  RunEnd end() const { return end_of_rank(*run, rank); }
  int64_t step() const { return rank ? rank->step : 0; }  // the latest of its log
  // By name, the rank's before those of the node.
  std::map<std::string_view, const MetricTotals*> metrics() const;
  // Its config, read from the log; null when there is none.
  Json config() const;
  // What could not be read, and how much of it was; not what is wrong with the tags.
  std::vector<std::string> notes() const;
};

// Reads one run, links included.
RunSnapshot read_run(const std::filesystem::path& run_dir, NameTable& names);

// Ranks in ascending order; empty if the directory does not hold a run. `names` outlives them.
std::vector<RunEntry> entries_of(const RunSnapshot& run, const NameTable& names);

// Throws Config when `runs` does not exist or is not a directory.
void verify_runs_directory(const std::filesystem::path& runs);

// Thread: one at a time.
class RunList {
 public:
  // Reads nothing yet. Throws as verify_runs_directory().
  explicit RunList(std::filesystem::path runs);
  RunList(const RunList&) = delete;
  RunList& operator=(const RunList&) = delete;

  // All entries, newest job first; ranks of one job in ascending order. Directories that are no
  // runs are passed over; damaged ones are listed with a note. They and what they point to live as
  // long as the list.
  const std::vector<RunEntry>& all();

  // The entries that `id` means: one entry by its id, all entries of a job by the job's id, either
  // also by a prefix that no other shares. Never empty. Throws Config, naming the nearest id, or
  // the first few when the prefix is not unique.
  std::vector<RunEntry> find(const std::string& id);

 private:
  std::vector<RunEntry> find_by_directory(const std::string& id);

  std::filesystem::path directory_;
  NameTable names_;
  std::optional<std::vector<RunEntry>> entries_;
};

// The directory of the run that `id` means. Throws Config.
std::filesystem::path find_run_directory(const std::filesystem::path& runs, const std::string& id);

// Why the run must stay: a process writes to it. Empty when it is over.
std::string why_in_use(const RunSummary& run);

// When the run last wrote something, in seconds since 1970.
double last_written(const RunSummary& run);

// How each entry of a run ended, by its id, for sync_run(). Throws Environment while the run
// continues, as its agent feeds the sinks; Config when nothing is recorded.
std::map<std::string, RunEnd> ends_to_sync(const std::filesystem::path& run_dir);

}  // namespace lockstep::catalog
