// Receives the event logs of other nodes into a run directory (tracking/agent/forwarding.h).
#pragma once

#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include "core/system/mutex.h"
#include "tracking/agent/forwarding.h"
#include "tracking/copies/log_copies.h"

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
  struct Response {
    int status = 200;
    std::string body;
  };
  Response handle_log(const std::string& name, int node, const std::string* bytes, uint64_t offset);
  Response handle_end(int node);
  bool mark_seen(int node) REQUIRES(mutex_);

  const std::filesystem::path run_dir_;
  const std::chrono::milliseconds node_timeout_;
  Mutex mutex_;
  std::map<int, Node> nodes_ GUARDED_BY(mutex_);
  LogCopies copies_ GUARDED_BY(mutex_);  // owned by nodes
  std::unique_ptr<Server> server_;
};

}  // namespace lockstep::tracking
