// Connects the processes of a job, and checks before training that they all run the same thing.
#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/world.h"
#include "trainer/prepared/prepared_run.h"

namespace lockstep::trainer {

// Options for the World of the process that `ranks` describes. `progress`: may be null.
WorldOptions world_options(const RankEnv& ranks, const DistributedSection& config,
                           ProgressPage* progress);

// Collective: every rank must have the same run file and see the same data. Returns the process ids
// of this node's ranks, which the tracking agent watches. Throws Config on every rank, naming the
// first rank that differs.
std::vector<int64_t> verify_ranks_agree(World& world, const PreparedRun& run);

// Of the run file and the data, as verify_ranks_agree() compares them. Not 0.
uint32_t checksum_of_inputs(const PreparedRun& run);

}  // namespace lockstep::trainer
