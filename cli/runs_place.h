// Where a command reads runs: a directory, or a bucket into which the sink `bucket` sends them, of which
// a directory of this machine is kept in step (tracking/copies/bucket_runs.h).
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tracking/copies/bucket_runs.h"

namespace lockstep::cli {

// Whether `dir` is a path with a scheme.
bool is_in_store(const std::string& dir);

// Thread: one at a time.
class RunsPlace {
 public:
  using Warn = std::function<void(const std::string&)>;

  // Fetches the runs of a bucket that fit `ids`, as BucketRuns::update(). `warn` is called for each run
  // that could not be read. Throws Config, Environment.
  RunsPlace(const std::string& dir, std::vector<std::string> ids, Warn warn);

  const std::filesystem::path& directory() const { return directory_; }

  // Repeats that from now on, in a thread, which calls `warn` for failures too.
  void keep_in_step();

 private:
  void update();

  std::filesystem::path directory_;
  const std::vector<std::string> ids_;
  const Warn warn_;
  std::unique_ptr<tracking::BucketRuns> bucket_;  // null: it is not one
  std::jthread thread_;                           // last: joined first
};

// For `words` of `lockstep runs` with --dir in a bucket: puts the directory in its place and returns what
// keeps it; otherwise null. Throws Config for a command that would change runs.
std::unique_ptr<RunsPlace> replace_bucket(std::vector<std::string>& words,
                                          const RunsPlace::Warn& warn);

}  // namespace lockstep::cli
