// Sets up forwarding of event logs from all nodes to the run directory of rank 0.
#pragma once

#include <filesystem>
#include <functional>

#include "lockstep/rank_env.h"
#include "lockstep/world.h"
#include "tracking/agent/forwarding.h"

namespace lockstep::trainer {

struct NodeLogs {
  const RankEnv& ranks;
  std::filesystem::path run_dir;  // exists on rank 0's node
  bool logs = false;              // whether this rank logs
  // --on-rank-loss continue: rank 0 may move to another node, which then writes the log and the
  // checkpoints.
  bool must_share = false;
  // Creates `run_dir` on a node that does not see rank 0's; throws Environment.
  std::function<void()> make_run_dir;
};

// Collective. Finds the nodes that do not see rank 0's run directory, creates one of the same name
// there, and returns the forwarding settings of this node's tracking agent; empty if all nodes see
// it. Throws Environment on every rank when a directory cannot be created or no port is available,
// Config if a node does not see a directory that must be shared.
tracking::Forwarding arrange_forwarding(World& world, const NodeLogs& node);

}  // namespace lockstep::trainer
