// The runs of a directory, kept up to date by one thread: it reads new runs, follows running ones
// and notifies waiting threads of changes. Runs that are viewed are opened: their values are
// indexed by column. Memory: a small summary per run, and the bookkeeping of the few open runs.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "catalog/index/run_summary.h"
#include "catalog/run_logs.h"
#include "core/system/mutex.h"

namespace lockstep::catalog {

struct CatalogProgress {
  size_t done = 0, total = 0;  // of the runs found: read, or verified to match the index
};

// OnRequest: reads runs on request only. All: reads all runs, using an existing index
// (catalog/index/catalog_index.h). AllAndKeep: also writes the index for the next start.
enum class CatalogReading { OnRequest, All, AllAndKeep };

struct CatalogChanges {
  uint64_t number = 0;               // argument of the next changes_since()
  std::vector<RunSnapshot> runs;     // changed runs
  std::vector<std::string> removed;  // ids
  bool reset = false;                // too many changes: read everything again
};

// Thread: any.
class RunCatalog {
 public:
  // `runs` must be a directory. Reads in the background, newest runs first.
  RunCatalog(std::filesystem::path runs, ColumnSpool& spool,
             CatalogReading reading = CatalogReading::All);
  ~RunCatalog();
  RunCatalog(const RunCatalog&) = delete;
  RunCatalog& operator=(const RunCatalog&) = delete;

  const std::filesystem::path& directory() const { return directory_; }
  NameTable& names() { return names_; }

  // Newest first.
  std::vector<RunSnapshot> all() const;
  // nullptr if there is no such run. Reads the run if it was not read yet.
  RunSnapshot find(const std::string& id);
  // The logs with columns, read at least once; nullptr if there is no such run. Throws Environment.
  std::shared_ptr<RunLogs> open(const std::string& id);

  // Re-reads a run after this process changed or removed it.
  void refresh(const std::string& id);

  CatalogProgress progress() const;
  uint64_t number() const;
  CatalogChanges changes_since(uint64_t number) const;
  // Returns when there is a change after `number`, after `timeout`, or after stop().
  void wait(uint64_t number, std::chrono::milliseconds timeout) const;
  // Wakes all waiting threads.
  void stop();

 private:
  struct Job {
    RunSnapshot snapshot;           // nullptr: not read yet
    std::shared_ptr<RunLogs> logs;  // of running and of open runs
    uint64_t used = 0;              // by open(): larger is more recent
    uint64_t stamp = 0;             // of the directory's files when it was read
    double modified = 0;            // of the directory; newest are read first
    bool live = false;
    bool checked = true;  // false: snapshot from the index, not yet verified
    std::shared_ptr<Mutex> turn = std::make_shared<Mutex>();  // one reader

    bool is_known() const { return snapshot && checked; }
  };

  void work();
  bool add(const std::string& id);
  void find_runs();
  void load_index();
  void keep_index();
  void read_new();
  void follow_live();
  void check_some();
  void drop_unused();
  void check(const std::string& id, bool with_columns);
  void read(const std::string& id, bool with_columns = false, bool force = false);
  void set_snapshot(Job& job, RunSummary summary) REQUIRES(mutex_);
  void forget(const std::string& id);
  bool was_removed_since(uint64_t number, const std::string& id) const REQUIRES(mutex_);

  std::filesystem::path directory_;
  ColumnSpool& spool_;
  CatalogReading reading_;
  NameTable names_;

  mutable Mutex mutex_;
  mutable std::condition_variable changed_;
  std::map<std::string, Job> jobs_ GUARDED_BY(mutex_);
  std::vector<std::pair<uint64_t, std::string>> removed_ GUARDED_BY(mutex_);  // number, id
  uint64_t number_ GUARDED_BY(mutex_) = 0, first_number_ GUARDED_BY(mutex_) = 0;
  uint64_t uses_ GUARDED_BY(mutex_) = 0;
  uint64_t num_settled_ GUARDED_BY(mutex_) = 0;  // grows if the index would change
  bool stopping_ GUARDED_BY(mutex_) = false, was_searched_ GUARDED_BY(mutex_) = false;

  // Used by the thread only.
  uint64_t root_stamp_ = 0;
  int opened_ahead_ = 0;    // newest runs, the most likely to be viewed
  std::string checked_to_;  // where check_some() continues
  uint64_t num_kept_ = 0;   // num_settled_ at the last write of the index
  std::chrono::steady_clock::time_point keep_next_;
  std::jthread thread_;  // last: it uses all of the above
};

}  // namespace lockstep::catalog
