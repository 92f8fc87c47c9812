// The tracking agent of one node: reads the event logs of the node's ranks while they are written,
// feeds the sinks, samples the system, and writes down the end of a run whose process could not. It
// is a process of its own (`lockstep track`), so nothing that it does or suffers reaches the
// training; started again it goes on where it was.
#pragma once

#include <filesystem>
#include <vector>

#include "tracking/agent/forwarding.h"
#include "tracking/agent/sink_thread.h"
#include "tracking/config/tracking_config.h"

namespace lockstep::tracking {

struct AgentOptions {
  std::filesystem::path run_dir;  // of the job; exists
  int node_rank = 0;
  int expected_logs = 0;      // how many ranks of the node log
  std::vector<int64_t> pids;  // of the node's ranks, also of those that do not log
  // End of file there means: the process that started the agent ends, or is gone. -1: none; the
  // agent then ends with the logs' writers.
  int starter_fd = -1;
  // Process id of the launcher, which tells how the job ended when all ranks are gone. 0: none.
  int64_t launcher = 0;
  TrackingConfig config;
  Environment environment;
  Forwarding forwarding;  // where nodes share no file system
};

struct AgentReport {
  bool complete = true;      // every sink has everything
  bool handed_over = false;  // the run goes on, with the agent that its new ranks started
  std::vector<SinkStatus> sinks;
};

// An agent that forwards feeds no sinks: the one that receives does, for all.
//
// Works until the run is over and the sinks have everything, or gave up, or
// config.upload_timeout has passed; or until an agent waits for its turn that ranks brought which
// were started anew. Returns at once (complete, no sinks) when another agent of the
// node has the job and its starter is gone. After a report that is not complete the process must
// end without static destruction (std::_Exit): a sink may hang in a call.
// Throws Environment: the run directory cannot be read or written.
AgentReport run_agent(const AgentOptions& options);

}  // namespace lockstep::tracking
