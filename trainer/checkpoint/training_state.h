// What a checkpoint captures and a resume restores, across all ranks.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "lockstep/data_parallel.h"
#include "lockstep/model.h"
#include "lockstep/optimizer.h"
#include "lockstep/world.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/state/weight_average.h"

namespace lockstep::trainer {

struct TrainingState {
  Model& model;
  Optimizer& optimizer;
  DataParallel& parallel;
  CheckpointHead& head;
  WeightAverage* average = nullptr;  // none: weights are not averaged
};

// What a checkpoint of `state` holds but for the random states. The tensors are the live ones.
Checkpoint live_state(const TrainingState& state);

// Collective: what a checkpoint of `state` holds. Model and optimizer are the live tensors. What
// rank 0 has is complete.
Checkpoint capture_state(World& world, const TrainingState& state);

// Collective: rank 0 reads the last good checkpoint and sends it to all, so that only rank 0 needs
// to see the files. Returns one line for each checkpoint that was passed over because it is
// damaged. Throws Environment when there are checkpoints but none can be used, Config when the
// checkpoint does not fit the model or the optimizer. With no checkpoint at all, `state` stays as
// it is. A checkpoint without an average leaves state.average as it is; one that nobody asks for
// is passed over.
std::vector<std::string> restore_state(World& world, const TrainingState& state,
                                       const std::filesystem::path& checkpoints);

// Where the weights of a model came from.
struct RestoredWeights {
  int64_t step = 0;
  bool averaged = false;
  std::vector<std::string> rejected;  // as restore_state() returns them
};

// Collective: the weights alone, of the same checkpoint; with `averaged`, and where there are such,
// the averaged ones. Throws as restore_state(), and Environment when there is no checkpoint.
RestoredWeights restore_weights(World& world, Model& model,
                                const std::filesystem::path& checkpoints, bool averaged);

}  // namespace lockstep::trainer
