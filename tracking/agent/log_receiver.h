// Takes the event logs of other nodes into a run directory (tracking/agent/forwarding.h).
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

// Serves on threads of its own from construction to destruction. Readers see a log that is received
// as one that a process writes, until its node has sent everything or falls silent.
class LogReceiver {
 public:
  // A node that is not heard of for so long sends no more.
  static constexpr auto kSilence = std::chrono::seconds(30);

  LogReceiver(std::filesystem::path run_dir, const Forwarding& forwarding,
              std::chrono::milliseconds silence = kSilence);
  ~LogReceiver();
  LogReceiver(const LogReceiver&) = delete;
  LogReceiver& operator=(const LogReceiver&) = delete;

  // Every node has sent everything, or is silent. Thread: any.
  bool is_over();

 private:
  struct Server;
  using Clock = std::chrono::steady_clock;
  struct Node {
    Clock::time_point heard;
    bool ended = false;
  };
  struct Copy {
    FileDescriptor file;
    LogCopy content;
    int node = 0;
  };
  struct Answer {
    int status = 200;
    std::string body;
  };
  Answer take(const std::string& name, int node, const std::string* bytes, uint64_t offset);
  Answer end(int node);
  bool hear(int node) REQUIRES(mutex_);
  Copy& copy_of(const std::string& name, int node) REQUIRES(mutex_);
  std::vector<FileDescriptor> let_go(int node) REQUIRES(mutex_);

  const std::filesystem::path run_dir_;
  const std::chrono::milliseconds silence_;
  Mutex mutex_;
  std::map<int, Node> nodes_ GUARDED_BY(mutex_);
  std::map<std::string, Copy> copies_ GUARDED_BY(mutex_);  // by file name
  std::unique_ptr<Server> server_;
};

// Whether a file of this name may be received: that of an event log or of a later segment of one.
bool is_event_log_name(const std::string& name);

}  // namespace lockstep::tracking
