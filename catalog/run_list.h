// A snapshot of all runs of a directory, for commands. Unchanged runs that are in the dashboard's
// index are not read again (catalog/index/catalog_index.h); nothing is written.
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
  const SourceSummary* rank = nullptr;  // nullptr if the job has no event log (yet)
  // The node's tracking agent, if this entry shows the node's system metrics; else nullptr.
  const SourceSummary* node = nullptr;
  const NameTable* names = nullptr;

  const RunInfo& info() const;
  RunEnd end() const { return end_of_rank(*run, rank); }
  int64_t step() const { return rank ? rank->step : 0; }  // the latest of its log
  // By name; metrics of the rank override those of the node.
  std::map<std::string_view, const MetricTotals*> metrics() const;
  // Its config, read from the log; null if there is none.
  Json config() const;
  // What could not be read, and how much was; excludes problems of tags.json.
  std::vector<std::string> notes() const;
};

// Reads one run, links included.
RunSnapshot read_run(const std::filesystem::path& run_dir, NameTable& names);

// Ranks in ascending order; empty if the directory does not hold a run. `names` must outlive them.
std::vector<RunEntry> entries_of(const RunSnapshot& run, const NameTable& names);

// Throws Config if `runs` does not exist or is not a directory.
void verify_runs_directory(const std::filesystem::path& runs);

// Thread: one at a time.
class RunList {
 public:
  // Reads nothing yet. Throws as verify_runs_directory().
  explicit RunList(std::filesystem::path runs);
  RunList(const RunList&) = delete;
  RunList& operator=(const RunList&) = delete;

  // All entries, newest job first; ranks of one job in ascending order. Directories that are
  // not runs are skipped; corrupt ones are listed with a note. Valid for the lifetime of the list.
  const std::vector<RunEntry>& all();

  // The entries of `given`: one entry by its id, or all entries of a job by the job's id or the path
  // of its directory; unique prefixes of ids are valid. Never empty. Throws Config, suggesting the
  // nearest id, or listing the first few if the prefix is ambiguous.
  std::vector<RunEntry> find(const std::string& given);

 private:
  std::vector<RunEntry> find_by_directory(const std::string& id);

  std::filesystem::path directory_;
  NameTable names_;
  std::optional<std::vector<RunEntry>> entries_;
};

// The directory of the run `id`. Throws Config.
std::filesystem::path find_run_directory(const std::filesystem::path& runs, const std::string& id);

// The reason if a process writes to the run, so that it must not be deleted; else empty.
std::string why_in_use(const RunSummary& run);

// When the run last wrote something, in seconds since 1970.
double last_written(const RunSummary& run);

// How each entry of a run ended, by its id, for sync_run(). Throws Environment while the run
// continues, as its agent feeds the sinks; Config if nothing is recorded.
std::map<std::string, RunEnd> ends_to_sync(const std::filesystem::path& run_dir);

}  // namespace lockstep::catalog
