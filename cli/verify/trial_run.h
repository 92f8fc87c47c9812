// Trains a stretch of a run in a temporary directory, and compares checkpoints.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace lockstep::cli {

// A directory that is removed with its content.
class TemporaryDirectory {
 public:
  // In `parent`, which is created if needed. Throws Environment.
  explicit TemporaryDirectory(const std::filesystem::path& parent);
  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

struct TrialOptions {
  std::filesystem::path run_file;
  int ranks = 1;
  std::filesystem::path resumed = {};  // the run whose checkpoint `begin` is continued
  int64_t begin = 0, end = 1;          // steps; begin 0: a new run
  int64_t every = 1;                   // steps between checkpoints
  std::vector<std::string> overrides = {};
};

// Trains with `lockstep launch` in the directory `runs`, without sinks and without a mirror, until the
// checkpoint of step `end` is saved. Returns the directory of the run. Throws what the launcher failed
// with, Config if the run ends before, and Environment if this process is asked to stop, after the
// ranks have ended.
std::filesystem::path train_trial(const std::filesystem::path& runs, const TrialOptions& options);

// Compares the weights and the optimizer state of two runs at `step` and prints the result, as
// `lockstep ckpt diff`. Returns whether they are bit-identical. Throws Environment if a run has no
// such checkpoint.
bool compare_checkpoints(const std::filesystem::path& run, const std::filesystem::path& other,
                         int64_t step);

}  // namespace lockstep::cli
