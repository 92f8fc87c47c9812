// How the processes of a job meet, and see that they are there for the same thing.
#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/world.h"
#include "trainer/prepared/prepared_run.h"

namespace lockstep::trainer {

// Of the World of a process that was started as `ranks` says. `progress`: may be null.
WorldOptions world_options(const RankEnv& ranks, const DistributedSection& config,
                           ProgressPage* progress);

// Collective: every rank must have the same run file and see the same data. Returns the process ids
// of this node's ranks, for the tracking agent to watch. Throws Config on every rank, naming the
// first one that differs.
std::vector<int64_t> verify_ranks_agree(World& world, const PreparedRun& run);

}  // namespace lockstep::trainer
