// Sends the event logs of a run directory to the agent of rank 0's node
// (tracking/agent/forwarding.h) while they are written.
#pragma once

#include <condition_variable>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "core/system/mutex.h"
#include "tracking/agent/forwarding.h"
#include "tracking/agent/sink_thread.h"
#include "tracking/copies/log_sender.h"

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
  void run();
  void send_logs(bool is_last);
  std::vector<std::filesystem::path> own_logs();
  void update_status(const std::string& problem, bool is_complete);

  const std::filesystem::path run_dir_;
  const int node_rank_;
  std::set<std::filesystem::path> own_;  // logs of ranks of this node
  std::unique_ptr<HttpClient> client_;   // used only by the thread
  LogSender sender_;                     // as above

  mutable Mutex mutex_;
  std::condition_variable changed_;
  SinkStatus status_ GUARDED_BY(mutex_);
  bool finishing_ GUARDED_BY(mutex_) = false, stop_ GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace lockstep::tracking
