// Copies of a run's checkpoints in a bucket, `checkpoint.mirror`: s3://bucket/prefix/RUN/STEP/ has the
// files of a checkpoint directory. Its manifest is written last and removed first: a checkpoint in
// the bucket is whole, or does not count.
#pragma once

#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "core/system/file_descriptor.h"
#include "core/system/mutex.h"
#include "formats/store/object_folder.h"
#include "lockstep/error.h"
#include "lockstep/tracker.h"

namespace lockstep::trainer {

// The folder of the run. Throws Config if `mirror` is not the path of a bucket.
std::unique_ptr<formats::ObjectFolder> mirror_of_run(const std::string& mirror,
                                                     const std::string& run_id,
                                                     std::chrono::milliseconds timeout);

// Writes and removes a small object, before training starts. Throws Config or Environment.
void verify_mirror(formats::ObjectFolder& folder);

// If there are no local checkpoints: fetches the latest whole one. Returns its step. Throws Config or
// Environment.
std::optional<int64_t> fetch_mirrored(formats::ObjectFolder& folder,
                                      const std::filesystem::path& checkpoints);

// A run in a mirror, or one of its checkpoints.
struct MirroredRun {
  std::string id;
  std::optional<int64_t> step;  // nullopt: the latest
  std::unique_ptr<formats::ObjectFolder> folder;
};

// Of "s3://bucket/prefix/RUN" or "s3://bucket/prefix/RUN/STEP". Throws Config.
MirroredRun mirrored_run(const std::string& path, std::chrono::milliseconds timeout);

// Fetches a whole checkpoint of the run to `checkpoints`, where it appears if `verify` does not
// throw: it gets a directory with the checkpoint, named by its step. Returns the step. Throws Config if
// there is no such checkpoint in the bucket, or if it is already here; Environment.
int64_t fetch_checkpoint(const MirroredRun& run, const std::filesystem::path& checkpoints,
                         const std::function<void(const std::filesystem::path&, int64_t)>& verify);

// The error of `what`, which takes no path in a bucket.
Error in_bucket(const std::string& what, const std::string& path);

// An open file of a checkpoint, which remains readable if the checkpoint is removed.
struct MirroredFile {
  std::string name;  // relative to the checkpoint
  FileDescriptor file;
};
using OpenFiles = std::vector<MirroredFile>;

// Uploads checkpoints in the background. A checkpoint that several ranks wrote can be uploaded by them
// together, in three parts, each begun when all ranks have done the previous one: the main rank calls
// clear(), every writing rank upload_share(), and the main rank update().
//
// Thread: update(): any; the others: the training thread.
class CheckpointMirror {
 public:
  CheckpointMirror(std::unique_ptr<formats::ObjectFolder> folder,
                   std::filesystem::path checkpoints);
  // Ends an upload; the checkpoint is then not in the bucket.
  ~CheckpointMirror();
  CheckpointMirror(const CheckpointMirror&) = delete;
  CheckpointMirror& operator=(const CheckpointMirror&) = delete;

  // A checkpoint was written, and others may have been removed. If an upload is in progress, it ends
  // first, and then the latest checkpoints are uploaded.
  void update(int64_t step);

  // Removes what the bucket has of this step.
  void clear(int64_t step);

  // Uploads the files of a share of the checkpoint, as it is now on disk; the first share also has the
  // files that belong to none, without the manifest. What is missing then is uploaded by update().
  void upload_share(int64_t step, int index, int count);

  bool is_busy() const;

  // What failed, once each.
  std::vector<std::string> take_problems();
  // Records it as warnings.
  void report(Tracker& tracker);

  // Waits until it is not busy, for at most `timeout`; false: it still is.
  bool wait(std::chrono::milliseconds timeout);

  // wait(), and reports.
  void finish(std::chrono::milliseconds timeout, Tracker& tracker);

 private:
  using Objects = std::vector<formats::ObjectInfo>;

  bool has_work() const REQUIRES(mutex_) { return is_wanted_ || part_; }
  void start(std::function<void()> part);
  void run(const std::stop_token& stop);
  void synchronize(const std::set<int64_t>& written);
  void upload(int64_t step, const OpenFiles& files, const Objects& present);
  void remove(int64_t step);

  const std::unique_ptr<formats::ObjectFolder> folder_;  // of the thread; stop(): any thread
  const std::filesystem::path checkpoints_;
  std::set<int64_t> seen_;  // of the thread: checkpoints that were on this disk
  // Of the thread: the step of an upload by several ranks, from clear() to update(), and its files.
  std::optional<int64_t> cleared_;
  OpenFiles shared_files_;
  mutable Mutex mutex_;
  std::condition_variable_any changed_;
  std::set<int64_t> written_ GUARDED_BY(mutex_);  // and not uploaded
  bool is_wanted_ GUARDED_BY(mutex_) = false, is_busy_ GUARDED_BY(mutex_) = false;
  std::function<void()> part_ GUARDED_BY(mutex_);  // of an upload by several ranks, to be done
  std::vector<std::string> problems_ GUARDED_BY(mutex_);  // not reported
  std::jthread thread_;                                   // last: joined first
};

}  // namespace lockstep::trainer
