// How the processes of a job meet, and see that they are there for the same thing.
#pragma once

#include <cstdint>
#include <vector>

#include "data/sampling/split.h"
#include "distributed/world.h"
#include "launch/environment/rank_env.h"
#include "trainer/config/run_sections.h"

namespace lockstep {

// Of the World of a process that was started as `ranks` says. `progress`: may be null.
WorldOptions world_options(const RankEnv& ranks, const DistributedSection& config,
                           ProgressPage* progress);

// Collective: every rank must have the same run file and see the same data. Returns the process ids
// of this node's ranks, for the tracking agent to watch. Throws Config on every rank, naming the
// first one that differs. `resolved`: of the run file, with overrides and defaults.
std::vector<int64_t> compare_notes(World& world, const RankEnv& ranks, const Json& resolved,
                                   const TrainAndEval& data);

}  // namespace lockstep
