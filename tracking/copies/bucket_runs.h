// The runs that the sink `bucket` has sent, as a directory of runs on this machine, which is kept in step
// with the bucket. A RunReceiver writes them: what a bucket contains is not trusted.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "formats/store/object_folder.h"
#include "lockstep/config_value.h"
#include "tracking/copies/log_pieces.h"
#include "tracking/copies/run_receiver.h"
#include "tracking/copies/update_lock.h"

namespace lockstep::tracking {

// A run without an outcome counts as running until the bucket has had nothing new of it for this time.
inline constexpr std::chrono::seconds kBucketSilence{120};

// Thread: one at a time; stop(): any.
//
// Several processes can have the same directory. The first one that updates it keeps it in step until its
// object is destroyed, as only a process that holds a log shows that the run is running. It has to look
// for what the others wait for: is_wanted().
class BucketRuns {
 public:
  // `directory`: of this machine, for this folder only; it is created.
  BucketRuns(std::unique_ptr<formats::ObjectFolder> folder, std::filesystem::path directory,
             const ReceiveLimits& limits = {});

  // Fetches what has changed, of the runs whose ids fit one of `ids` (all if it is empty): the whole
  // id, its beginning, or that of an entry. Also those that other processes wait for. Removes runs that
  // the bucket no longer has. If another process keeps the directory in step, waits until it has done
  // so, for as long as it makes progress. Returns what is wrong with single runs. Throws Config (no such
  // bucket, credentials, too many objects) and Environment.
  std::vector<std::string> update(const std::vector<std::string>& ids = {});

  // The same for one run, by its id. False: the bucket does not have it.
  bool update_one(const std::string& id);

  // Whether another process waits for update().
  bool is_wanted() const { return lock_.is_held() && !lock_.requests().empty(); }

  // Ends the current call soon, and later ones at once, with Environment.
  void stop();

  const std::filesystem::path& directory() const { return directory_; }

 private:
  using Ids = UpdateLock::Ids;
  struct Run {
    std::map<std::string, formats::ObjectInfo> files;
    std::map<std::string, std::vector<LogPiece>> logs;  // without replaced pieces
    int64_t modified = 0;                               // seconds since 1970, of the newest object
    Json stamp() const;
    bool has_outcome() const;
  };

  bool lock(const Ids& ids);
  void use_directory();
  void note_progress();
  std::map<std::string, Run> list(const std::string& folder);
  std::map<std::string, Run> list_runs(const Ids& ids);
  std::map<std::string, std::string> update_runs(const Ids& ids);
  void remove_others(const std::map<std::string, Run>& runs, const Ids& listed);
  void update_run(const std::string& id, const Run& run);
  void fetch_run(const std::string& id, const Run& run, const Json& known);
  void fetch_files(const std::string& id, const Run& run, const Json& known, bool is_outcome);
  [[nodiscard]] bool fetch_log(const std::string& id, const std::string& segment,
                               const std::vector<LogPiece>& pieces);
  void forget(const std::string& id);
  bool begins(const Run& run) const;
  void note_life(const std::string& id, const Run& run);
  std::string read(const std::vector<LogPiece>& pieces, uint64_t begin, uint64_t end);

  const std::unique_ptr<formats::ObjectFolder> folder_;
  const std::filesystem::path directory_;
  const ReceiveLimits limits_;
  UpdateLock lock_;
  // With the lock:
  std::unique_ptr<RunReceiver> receiver_;
  Json known_;             // what the directory has, by run: Run::stamp(), or what was refused
  int64_t listed_at_ = 0;  // seconds since 1970
  std::chrono::steady_clock::time_point progress_at_;
};

// If `run_dir` has no event log: fetches those of the run, and its other files, so that a resumed run
// continues them. `folder`: with the runs. Throws Config, Environment.
void fetch_run_of_bucket(std::unique_ptr<formats::ObjectFolder> folder,
                         const std::filesystem::path& run_dir);

}  // namespace lockstep::tracking
