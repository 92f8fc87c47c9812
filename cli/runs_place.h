// Where a command reads runs: a directory, or a bucket into which the sink `bucket` sends them, of which
// a directory of this machine is kept in step (tracking/copies/bucket_runs.h).
#pragma once

#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "cli/command_words.h"
#include "core/system/mutex.h"
#include "lockstep/error.h"
#include "tracking/copies/bucket_runs.h"

namespace lockstep::cli {

// Thread: one at a time.
class RunsPlace {
 public:
  using Warn = std::function<void(const std::string&)>;
  enum class Keeps { Once, UpToDate };

  // Begins to fetch the runs of a bucket that fit `ids`, as BucketRuns::update(), in a thread. UpToDate:
  // repeats it from then on, and calls `warn` in that thread for what is wrong, once until it changes.
  // Throws Config for a path that is not one in a bucket.
  RunsPlace(const std::string& dir, std::vector<std::string> ids, Keeps keeps, Warn warn);
  // Ends requests soon.
  ~RunsPlace();
  RunsPlace(const RunsPlace&) = delete;
  RunsPlace& operator=(const RunsPlace&) = delete;

  // Waits until the runs are here, and calls `warn` for each that could not be read. False:
  // `is_interrupted` has returned true, which is called every 100 ms. Called once. Throws Config,
  // Environment.
  bool wait(const std::function<bool()>& is_interrupted = {});

  const std::filesystem::path& directory() const { return directory_; }

  // What is wrong now.
  std::vector<std::string> problems() const;

  // `text` with the path as the user wrote it instead of the directory.
  std::string as_written(std::string text) const;
  // Returns act(). Its errors name the path as the user wrote it.
  template <class Act>
  auto call(const Act& act) const {
    try {
      return act();
    } catch (const Error& error) {
      throw Error(error.kind(), as_written(error.what()));
    }
  }

 private:
  void run(const std::stop_token& stop);
  void repeat(const std::stop_token& stop);
  void report(const std::vector<std::string>& problems);

  const std::string written_;
  std::filesystem::path directory_;
  const std::vector<std::string> ids_;
  const Keeps keeps_;
  const Warn warn_;
  std::unique_ptr<tracking::BucketRuns> bucket_;  // null: it is not one
  mutable Mutex mutex_;
  std::vector<std::string> problems_ GUARDED_BY(mutex_);
  std::promise<void> fetched_;
  std::jthread thread_;  // last: joined first
};

// For `words` of `lockstep runs` with --dir in a bucket: puts the directory in its place and returns what
// keeps it, with the runs; otherwise null. Throws Config for a command that would change runs.
std::unique_ptr<RunsPlace> replace_bucket(std::vector<std::string>& words,
                                          const RunsPlace::Warn& warn);

}  // namespace lockstep::cli
