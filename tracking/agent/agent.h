// The tracking agent of one node: reads the event logs of the node's ranks while they are written,
// feeds the sinks, samples the system, and records the end of a run whose process could not. It is
// a separate process (`lockstep track`), so a failure in it does not affect the training; after a
// restart it resumes where it stopped.
#pragma once

#include <filesystem>
#include <vector>

#include "tracking/agent/forwarding.h"
#include "tracking/agent/sink_thread.h"
#include "tracking/config/tracking_config.h"

namespace lockstep::tracking {

struct AgentOptions {
  std::filesystem::path run_dir;  // of the job; must exist
  int node_rank = 0;
  int expected_logs = 0;      // number of ranks of the node that log
  std::vector<int64_t> pids;  // of all ranks of the node, including those that do not log
  // Reaches end of file when the process that started the agent finishes or dies. -1: none; the
  // agent then runs until the logs have no writer.
  int parent_fd = -1;
  // Process id of the launcher, which reports how the job ended after all ranks exited. 0: none.
  int64_t launcher = 0;
  TrackingConfig config;
  Environment environment;
  Forwarding forwarding;
};

struct AgentReport {
  bool complete = true;      // every sink has received everything
  bool handed_over = false;  // the run continues with the agent that its new ranks started
  bool hangs = false;        // a thread that records the code of the run hangs
  std::vector<SinkStatus> sinks;
};

// Runs the agent until the run is over and each sink has received everything or gave up, or
// config.upload_timeout has passed, or restarted ranks have started another agent, which is waiting
// to take over. Returns immediately (complete, no sinks) if another agent of the node serves the
// job and the parent of this one is gone. An agent that forwards logs feeds no sinks; the receiving
// agent feeds them for all nodes. If the report is not complete or `hangs` is set, the process must
// exit without static destruction (std::_Exit), because a thread may hang in a call. Throws Environment if the run
// directory cannot be read or written.
AgentReport run_agent(const AgentOptions& options);

}  // namespace lockstep::tracking
