// Captures the training state of all ranks for a checkpoint, and restores it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "lockstep/data_parallel.h"
#include "lockstep/model.h"
#include "lockstep/world.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/state/optimizer_shard.h"
#include "trainer/state/state_stream.h"
#include "trainer/state/weight_average.h"

namespace lockstep::trainer {

struct TrainingState {
  Model& model;
  OptimizerShard& optimizer;
  DataParallel& parallel;
  CheckpointHead& head;
  WeightAverage* average = nullptr;  // null: weights are not averaged
  // Where the file of the base model may be if it is not where the checkpoint says; empty: unknown.
  std::filesystem::path base = {};
};

// Returns a checkpoint of `state` without the random states, what is divided between ranks, and the
// weights of state.head.base. The tensors are the live ones.
Checkpoint live_state(const TrainingState& state);

// Completes `checkpoint`, from live_state(), by what was divided between ranks: adds the optimizer's
// state, and writes the weights that are saved there, of the same version, to those of the
// checkpoint. Throws a Bug if parts are missing.
void add_kept_shards(Checkpoint& checkpoint, const distributed::KeptShards& kept);

struct CapturedState {
  Checkpoint checkpoint;  // the live tensors; divided ones are on the meta device
  StateStream divided;    // the content of those
};

// Collective: returns the state of all ranks, complete on rank 0.
CapturedState capture_state(World& world, const TrainingState& state);

// Collective: rank 0 reads the last good checkpoint and broadcasts it, so that only rank 0 needs to
// see the files. Returns one line for each checkpoint that was skipped because it is corrupt.
// Throws Environment when there are checkpoints but none can be used, Config when the checkpoint
// does not fit the model or the optimizer, or its base
// model is missing or has changed. Without any checkpoint, `state` is unchanged. A
// checkpoint without an average leaves state.average unchanged; an average is ignored if
// state.average is null.
std::vector<std::string> restore_state(World& world, const TrainingState& state,
                                       const std::filesystem::path& checkpoints);

// Collective: copies rank 0's `checkpoint`, from live_state(), to `state` on all ranks. Random states
// are not copied.
void spread_state(World& world, const TrainingState& state, Checkpoint checkpoint);

// The origin of restored weights.
struct RestoredWeights {
  int64_t step = 0;
  bool averaged = false;
  std::vector<std::string> rejected;  // as returned by restore_state()
};

// Collective: restores only the weights, of the last good checkpoint; with `averaged`, the averaged
// ones if it has them. `base`: as TrainingState::base. Throws as restore_state(), and Environment when there is no checkpoint.
RestoredWeights restore_weights(World& world, Model& model,
                                const std::filesystem::path& checkpoints, bool averaged,
                                const std::filesystem::path& base = {});

}  // namespace lockstep::trainer
