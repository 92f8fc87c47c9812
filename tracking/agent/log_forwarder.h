// Sends the event logs of a run directory to the agent of rank 0's node
// (tracking/agent/forwarding.h) while they are written. Sends complete records only.
#pragma once

#include <condition_variable>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "core/system/mutex.h"
#include "tracking/agent/forwarding.h"
#include "tracking/agent/sink_thread.h"

namespace lockstep {
class HttpClient;
}

namespace lockstep::tracking {

// Thread: any; an internal thread sends, so an unreachable or slow receiver does not delay the
// caller. Failures are retried with exponential backoff.
class LogForwarder {
 public:
  LogForwarder(std::filesystem::path run_dir, int node_rank, const Forwarding& forwarding);
  ~LogForwarder();
  LogForwarder(const LogForwarder&) = delete;
  LogForwarder& operator=(const LogForwarder&) = delete;

  // Nothing more will be written: sends the rest and then the end.
  void finish();

  // Reported like that of a sink.
  SinkStatus status() const;

 private:
  struct Progress {
    uint64_t local_bytes = 0;   // bytes of complete records in the segment
    uint64_t copied_bytes = 0;  // bytes of the copy
    bool is_copy_known = false;
    bool is_final = false;  // a later segment exists, and this one is copied completely
  };
  void run();
  void send_logs(bool is_last);
  std::vector<std::filesystem::path> own_logs();
  void send_log(const std::filesystem::path& log);
  void send(const std::filesystem::path& segment);
  void compare(const std::filesystem::path& segment, int file, Progress& progress);
  uint64_t backlog();
  void update_status(const std::string& problem, bool is_complete);

  const std::filesystem::path run_dir_;
  const int node_rank_;
  std::set<std::filesystem::path> own_;  // logs of ranks of this node
  std::unique_ptr<HttpClient> client_;   // used only by the thread
  std::map<std::filesystem::path, Progress> progress_;

  mutable Mutex mutex_;
  std::condition_variable changed_;
  SinkStatus status_ GUARDED_BY(mutex_);
  bool finishing_ GUARDED_BY(mutex_) = false, stop_ GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

// Returns the number of bytes of complete records in `segment` from offset `from`, which must be
// the start of a record. Throws Environment if the segment cannot be read.
uint64_t complete_record_bytes(int segment, uint64_t from);

}  // namespace lockstep::tracking
