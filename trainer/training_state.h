// What a checkpoint captures and a resume restores, across all ranks.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "distributed/world.h"
#include "models/model.h"
#include "trainer/optimizer.h"
#include "trainer/position.h"

namespace lockstep {

struct TrainingState {
  Model& model;
  Optimizer& optimizer;
  Position& position;
};

// Collective: rank 0 writes the checkpoint of `state.position` and keeps the latest `keep_last`;
// returns on every rank when it is on the disk. Throws Environment on the rank that could not
// write, PeerError on the others.
void save_state(World& world, const TrainingState& state, const std::filesystem::path& checkpoints,
                int64_t keep_last);

// Collective: rank 0 reads the last good checkpoint and sends it to all, so that only rank 0 needs
// to see the files. Returns one line for each checkpoint that was passed over because it is
// damaged. Throws Environment when there are checkpoints but none can be used, Config when the
// checkpoint does not fit the model or the optimizer. With no checkpoint at all, `state` stays as
// it is.
std::vector<std::string> restore_state(World& world, const TrainingState& state,
                                       const std::filesystem::path& checkpoints);

}  // namespace lockstep
