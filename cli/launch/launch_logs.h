// The log directories of a launch. It keeps them, unless nothing in them is needed.
#pragma once

#include <filesystem>
#include <vector>

namespace lockstep::cli {

class LaunchLogs {
 public:
  LaunchLogs() = default;
  // Unless keep() was called, removes the directory of the last attempt, and the parents that were created
  // for it and are empty: other launches may use the same.
  ~LaunchLogs();
  LaunchLogs(const LaunchLogs&) = delete;
  LaunchLogs& operator=(const LaunchLogs&) = delete;

  // The next attempt directory below `log_dir`. Throws Environment.
  std::filesystem::path claim(const std::filesystem::path& log_dir);
  void keep() { keep_ = true; }
  bool is_kept() const { return keep_ && !claimed_.empty(); }
  // Of the last attempt. Requires is_kept().
  const std::filesystem::path& last() const { return claimed_.back(); }
  // Whether a process has written anything.
  bool have_content() const;

 private:
  std::vector<std::filesystem::path> claimed_, created_;  // created_: each before its parent
  bool keep_ = false;
};

}  // namespace lockstep::cli
