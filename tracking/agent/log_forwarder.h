// Sends the event logs of a run directory to the agent of rank 0's node
// (tracking/agent/forwarding.h), while they are written: whole records only.
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

namespace lockstep::tracking {

class HttpClient;

// Thread: any; the object's own thread sends. A receiver that is away, slow or refuses delays
// nobody: it is tried again with growing pauses.
class LogForwarder {
 public:
  LogForwarder(std::filesystem::path run_dir, int node_rank, const Forwarding& forwarding);
  ~LogForwarder();
  LogForwarder(const LogForwarder&) = delete;
  LogForwarder& operator=(const LogForwarder&) = delete;

  // Nothing more will be written: what is left is sent, and then the end.
  void finish();

  // As that of a sink, for the same reports.
  SinkStatus status() const;

 private:
  struct Sent {
    uint64_t whole = 0;  // bytes of whole records that were seen
    uint64_t there = 0;  // bytes of the copy
    bool is_known = false;
    bool is_final = false;  // there is a later segment, and all of this one is there
  };
  void run();
  void turn(bool is_last);
  std::vector<std::filesystem::path> own_logs();
  void send_log(const std::filesystem::path& log);
  void send(const std::filesystem::path& segment);
  void compare(const std::filesystem::path& segment, int file, Sent& sent);
  uint64_t backlog();
  void note(const std::string& problem, bool is_complete);

  const std::filesystem::path run_dir_;
  const int node_rank_;
  std::set<std::filesystem::path> own_;  // logs of ranks of this node
  std::unique_ptr<HttpClient> client_;   // used by the thread only
  std::map<std::filesystem::path, Sent> sent_;

  mutable Mutex mutex_;
  std::condition_variable changed_;
  SinkStatus status_ GUARDED_BY(mutex_);
  bool finishing_ GUARDED_BY(mutex_) = false, stop_ GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

// How many bytes of `segment` from `from` on, where a record begins, are whole records. 0: none
// yet. Throws Environment when it cannot be read.
uint64_t whole_records(int segment, uint64_t from);

}  // namespace lockstep::tracking
