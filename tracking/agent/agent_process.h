// The tracking agent of this node as a child process: started, watched and waited for by the
// process of local rank 0.
#pragma once

#include <chrono>
#include <filesystem>
#include <vector>

#include "core/system/file_descriptor.h"
#include "tracking/agent/forwarding.h"

namespace lockstep::tracking {

struct AgentCommand {
  std::filesystem::path program;  // lockstep
  std::filesystem::path run_dir;
  int node_rank = 0;
  int expected_logs = 0;      // how many ranks of the node log
  std::vector<int64_t> pids;  // of the node's ranks
  int64_t launcher = 0;       // process that tells how the job ended when all ranks are gone, or 0
  Forwarding forwarding;      // where nodes share no file system
};

// The agent is a session of its own: it survives this process, however that ends, and ends by
// itself when it has nothing more to do. It gets a pipe from here whose closing tells it that the
// run ends. Thread: the training thread.
class AgentProcess {
 public:
  // Throws Environment when it cannot be started.
  explicit AgentProcess(AgentCommand command);
  // Lets go of it.
  ~AgentProcess();
  AgentProcess(const AgentProcess&) = delete;
  AgentProcess& operator=(const AgentProcess&) = delete;

  // Starts the agent again when it died (at most three times). Quick: a system call.
  void keep_alive();

  // Tells the agent that this process records no more, and waits for it. Returns whether it ended
  // within `timeout`.
  bool finish(std::chrono::milliseconds timeout);

 private:
  void start();
  bool has_ended();

  AgentCommand command_;
  FileDescriptor pipe_;  // its write end
  int pid_ = -1;         // -1: ended and reaped
  int starts_left_ = 4;
};

}  // namespace lockstep::tracking
