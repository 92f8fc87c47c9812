// Receives the event logs of other nodes into a run directory (tracking/agent/forwarding.h).
#pragma once

#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/system/file_descriptor.h"
#include "core/system/mutex.h"
#include "tracking/agent/forwarding.h"

namespace lockstep::tracking {

// Serves on internal threads from construction to destruction. To readers, a log being received has
// a writer until its node has sent everything or times out.
class LogReceiver {
 public:
  // A node without requests for this long counts as gone.
  static constexpr auto kNodeTimeout = std::chrono::seconds(30);

  LogReceiver(std::filesystem::path run_dir, const Forwarding& forwarding,
              std::chrono::milliseconds node_timeout = kNodeTimeout);
  ~LogReceiver();
  LogReceiver(const LogReceiver&) = delete;
  LogReceiver& operator=(const LogReceiver&) = delete;

  // Whether every node has sent everything or timed out. Thread: any.
  bool is_over();

 private:
  struct Server;
  using Clock = std::chrono::steady_clock;
  struct Node {
    Clock::time_point last_seen;
    bool ended = false;
  };
  struct Copy {
    FileDescriptor file;
    LogCopy content;
    int node = 0;
  };
  struct Response {
    int status = 200;
    std::string body;
  };
  Response handle_log(const std::string& name, int node, const std::string* bytes, uint64_t offset);
  Response handle_end(int node);
  bool mark_seen(int node) REQUIRES(mutex_);
  Copy& copy_of(const std::string& name, int node) REQUIRES(mutex_);
  std::vector<FileDescriptor> release_copies(int node) REQUIRES(mutex_);

  const std::filesystem::path run_dir_;
  const std::chrono::milliseconds node_timeout_;
  Mutex mutex_;
  std::map<int, Node> nodes_ GUARDED_BY(mutex_);
  std::map<std::string, Copy> copies_ GUARDED_BY(mutex_);  // by file name
  std::unique_ptr<Server> server_;
};

// Whether `name` is a valid file name of an event log or of one of its later segments.
bool is_event_log_name(const std::string& name);

}  // namespace lockstep::tracking
