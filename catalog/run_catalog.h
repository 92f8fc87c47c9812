// The runs of a directory, kept up to date by one thread: it reads new runs, follows those that go
// on, and tells who waits what changed. Runs that are looked at are opened: their values are
// indexed by column. Memory: a small summary of every run, and the bookkeeping of the few that are
// open.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "catalog/index/run_summary.h"
#include "catalog/run_logs.h"
#include "core/system/mutex.h"

namespace lockstep::catalog {

struct CatalogProgress {
  size_t done = 0, total = 0;  // runs read, or seen to be as the index says, of those found
};

// What a catalog reads by itself: only what it is asked for, or all runs; and whether it may keep
// an index for the next start (catalog/index/catalog_index.h). One that is there is used by both of the
// last.
enum class CatalogReading { Asked, All, AllAndKeep };

struct CatalogChanges {
  uint64_t number = 0;               // what to ask with the next time
  std::vector<RunSnapshot> runs;     // that changed
  std::vector<std::string> removed;  // ids
  bool reset = false;                // too much changed: everything is to be read again
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
  // nullptr where there is none. One that was not read yet is read now.
  RunSnapshot find(const std::string& id);
  // With columns, read at least once. nullptr where there is none. Throws Environment.
  std::shared_ptr<RunLogs> open(const std::string& id);

  // Reads what somebody here changed, or removed.
  void refresh(const std::string& id);

  CatalogProgress progress() const;
  uint64_t number() const;
  CatalogChanges changes_since(uint64_t number) const;
  // Returns when there is something newer than `number`, after `timeout`, or at the end.
  void wait(uint64_t number, std::chrono::milliseconds timeout) const;
  // Nobody waits any more.
  void stop();

 private:
  struct Job {
    RunSnapshot snapshot;           // nullptr: not read yet
    std::shared_ptr<RunLogs> logs;  // of runs that go on or are open
    uint64_t used = 0;              // by open(): larger is later
    uint64_t stamp = 0;             // of the directory's files when it was read
    double modified = 0;            // of the directory; newest are read first
    bool live = false;
    bool checked = true;  // false: the snapshot is the index's, the files were not looked at yet
    std::shared_ptr<std::mutex> turn = std::make_shared<std::mutex>();  // of those who read the run

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
  void read(const std::string& id, bool with_columns = false, bool anew = false);
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
  uint64_t num_settled_ GUARDED_BY(mutex_) = 0;  // grows when what an index would hold changes
  bool stopping_ GUARDED_BY(mutex_) = false, was_searched_ GUARDED_BY(mutex_) = false;

  // The thread's own.
  uint64_t root_stamp_ = 0;
  int opened_ahead_ = 0;    // of the newest runs, which are the likeliest to be looked at
  std::string checked_to_;  // check_some() goes round
  uint64_t num_kept_ = 0;   // num_settled_ as the index has it
  std::chrono::steady_clock::time_point keep_next_;
  std::jthread thread_;  // last: it uses all of the above
};

}  // namespace lockstep::catalog
