// All event logs of one run, kept up to date together.
#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "catalog/index/log_index.h"
#include "core/system/mutex.h"

namespace lockstep::catalog {

// Whether symbolic links are followed. The dashboard does not: a link could lead out of the
// directory of runs to files that its users may not read.
enum class Links { Refuse, Follow };

// The event logs of a run, ranks before nodes, each in order.
std::vector<LogName> log_names(const std::filesystem::path& run_dir, Links links);

// The path of the log of `source`.
std::filesystem::path log_path(const std::filesystem::path& run_dir, const SourceSummary& source);

// Thread: any.
class RunLogs {
 public:
  // Reads nothing yet. `spool` nullptr: totals only.
  RunLogs(std::filesystem::path run_dir, NameTable& names, ColumnSpool* spool,
          Links links = Links::Refuse);

  // Reads appended records and new logs. Returns whether anything changed. Waits until no look() is
  // in progress.
  bool catch_up();

  // Ensures that the logs were read at least once.
  void read_once();

  // Calls `visit` with the logs, ranks in order and then nodes. They do not change during the call.
  template <class Visit>
  auto look(const Visit& visit) const {
    const ReaderLock lock(mutex_);
    return visit(logs_);
  }

  bool has_columns() const { return spool_ != nullptr; }
  size_t num_logs() const;
  const std::filesystem::path& run_dir() const { return run_dir_; }

 private:
  bool find_logs() REQUIRES(mutex_);
  bool catch_up_all() REQUIRES(mutex_);

  std::filesystem::path run_dir_;
  NameTable& names_;
  ColumnSpool* spool_;
  Links links_;
  mutable SharedMutex mutex_;
  std::vector<std::unique_ptr<LogIndex>> logs_ GUARDED_BY(mutex_);
  bool was_read_ GUARDED_BY(mutex_) = false;
};

// How a rank ended, or for nullptr, a job without an event log: tracking/runs/end_facts.h decides,
// from the facts and the log. Members other than the state are valid only if has_ended().
RunEnd end_of_rank(const RunSummary& run, const SourceSummary* rank);

// The summary of a run, from its logs and other files. The caller sets `version` and `changed`.
RunSummary summarize_run(const RunLogs& logs, NameTable& names);

// The number at the end of "rank-00003.lsev", or -1.
int number_of_log(const std::filesystem::path& log);

}  // namespace lockstep::catalog
