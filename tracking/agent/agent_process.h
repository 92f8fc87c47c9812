// The tracking agent of this node as a child process. The process of local rank 0 starts it,
// monitors it and waits for it.
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
  int expected_logs = 0;      // number of ranks of the node that log
  std::vector<int64_t> pids;  // of the node's ranks
  int64_t launcher = 0;       // reports how the job ended after all ranks exited; 0: none
  Forwarding forwarding;
};

// The agent runs in its own session: it survives this process and exits by itself when it has no
// more work. Closing the pipe to the agent signals the end of the run. Thread: the training thread.
class AgentProcess {
 public:
  // Throws Environment if the agent cannot be started.
  explicit AgentProcess(AgentCommand command);
  // Detaches from the agent, which keeps running.
  ~AgentProcess();
  AgentProcess(const AgentProcess&) = delete;
  AgentProcess& operator=(const AgentProcess&) = delete;

  // Restarts the agent if it died, at most three times. Costs one system call.
  void keep_alive();

  // Notifies the agent that this process records no more, and waits for it. Returns whether it
  // exited within `timeout`.
  bool finish(std::chrono::milliseconds timeout);

 private:
  void start();
  bool has_exited();

  AgentCommand command_;
  FileDescriptor pipe_;  // write end
  int pid_ = -1;         // -1: exited and reaped
  int starts_left_ = 4;
};

}  // namespace lockstep::tracking
