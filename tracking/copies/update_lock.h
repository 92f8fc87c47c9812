// Which of the processes that use a directory keeps it in step with another place, for all of them: the
// first one, until its object is destroyed. The others leave requests in the directory, and wait.
#pragma once

#include <atomic>
#include <chrono>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "core/system/file_descriptor.h"

namespace lockstep::tracking {

// Thread: one at a time; stop(): any.
class UpdateLock {
 public:
  using Ids = std::vector<std::string>;  // what to update; empty: everything

  // `directory`: exists.
  explicit UpdateLock(std::filesystem::path directory) : directory_(std::move(directory)) {}

  // Waits until this process has the lock, or, as false, until the one that has it has updated `ids`,
  // for as long as it makes progress. Throws Environment, also after stop().
  bool acquire(const Ids& ids);

  // With the lock: what other processes wait for, by the file of the request. Removing it is
  // the answer.
  std::map<std::filesystem::path, Ids> requests() const;
  // With the lock: the update is not finished, but has not stopped. Throws Environment after stop().
  void note_progress();

  bool is_held() const { return file_.is_open(); }

  // Ends acquire() soon.
  void stop() { is_stopped_ = true; }

 private:
  const std::filesystem::path directory_;
  std::atomic<bool> is_stopped_ = false;
  FileDescriptor file_;
};

}  // namespace lockstep::tracking
