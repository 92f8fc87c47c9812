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

#include "core/system/file_descriptor.h"
#include "formats/store/object_folder.h"
#include "lockstep/config_value.h"
#include "tracking/copies/log_pieces.h"
#include "tracking/copies/run_receiver.h"

namespace lockstep::tracking {

// A run without an outcome counts as running until the bucket has had nothing new of it for this time.
inline constexpr std::chrono::seconds kBucketSilence{120};

// Thread: one at a time.
class BucketRuns {
 public:
  // `directory`: of this machine, for this folder only; it is created.
  BucketRuns(std::unique_ptr<formats::ObjectFolder> folder, std::filesystem::path directory,
             const ReceiveLimits& limits = {});

  // Fetches what has changed, of the runs whose ids fit one of `ids` (all if it is empty): the whole
  // id, its beginning, or that of an entry. Removes runs that the bucket no longer has. If another
  // process keeps the directory in step, waits until it has done so. Returns what is wrong with single
  // runs. Throws Config (no such bucket, credentials, too many objects) and Environment.
  std::vector<std::string> update(const std::vector<std::string>& ids = {});

  // The same for one run, by its id. False: the bucket does not have it.
  bool update_one(const std::string& id);

  const std::filesystem::path& directory() const { return directory_; }

 private:
  struct Run {
    std::map<std::string, formats::ObjectInfo> files;
    std::map<std::string, std::vector<LogPiece>> logs;  // without replaced pieces
    int64_t modified = 0;                               // seconds since 1970, of the newest object
    Json stamp() const;
    bool has_outcome() const;
  };

  bool lock();
  std::map<std::string, Run> list(const std::string& folder);
  void remove_others(const std::map<std::string, Run>& runs);
  void update_run(const std::string& id, const Run& run);
  void fetch_run(const std::string& id, const Run& run, const Json& known);
  void fetch_files(const std::string& id, const Run& run, const Json& known, bool is_outcome);
  [[nodiscard]] bool fetch_log(const std::string& id, const std::string& segment,
                               const std::vector<LogPiece>& pieces);
  void forget(const std::string& id);
  void note_life(const std::string& id, const Run& run);
  std::string read(const std::vector<LogPiece>& pieces, uint64_t begin, uint64_t end);

  const std::unique_ptr<formats::ObjectFolder> folder_;
  const std::filesystem::path directory_;
  const ReceiveLimits limits_;
  // With the lock:
  FileDescriptor lock_;  // of the process that writes to the directory
  std::unique_ptr<RunReceiver> receiver_;
  Json known_;  // what the directory has, by run: Run::stamp()
};

// If `run_dir` has no event log: fetches those of the run, and its other files, so that a resumed run
// continues them. `folder`: with the runs. Throws Config, Environment.
void fetch_run_of_bucket(std::unique_ptr<formats::ObjectFolder> folder,
                         const std::filesystem::path& run_dir);

}  // namespace lockstep::tracking
