// How the event logs of all nodes reach the run directory of rank 0.
#pragma once

#include <filesystem>
#include <functional>

#include "lockstep/rank_env.h"
#include "lockstep/world.h"
#include "tracking/agent/forwarding.h"

namespace lockstep::trainer {

struct NodeLogs {
  const RankEnv& ranks;
  std::filesystem::path run_dir;  // exists where rank 0 is
  bool logs = false;              // this rank does
  // Makes `run_dir` on a node that does not see rank 0's; throws Environment.
  std::function<void()> make_run_dir;
};

// Collective. Finds the nodes that do not see rank 0's run directory, makes one of the same name
// there, and says what their tracking agents and rank 0's do about it; nothing where all nodes see
// it. Throws Environment on every rank when a directory cannot be made or no port be had.
tracking::Forwarding arrange_forwarding(World& world, const NodeLogs& node);

}  // namespace lockstep::trainer
