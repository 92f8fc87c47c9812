// The model of a run, equal on all ranks, with what updates it.
#pragma once

#include <memory>

#include "lockstep/data_parallel.h"
#include "lockstep/model.h"
#include "lockstep/named_tensors.h"
#include "lockstep/world.h"
#include "trainer/prepared/block_units.h"
#include "trainer/prepared/prepared_run.h"
#include "trainer/state/optimizer_shard.h"

namespace lockstep::trainer {

struct SharedModel {
  std::shared_ptr<Model> model;  // on the device, in training mode
  NamedTensors parameters;       // the trainable ones
  std::unique_ptr<DataParallel> parallel;
  std::unique_ptr<BlockUnits> units;  // null: weights are not gathered in units
  OptimizerShard optimizer;
};

// Collective: broadcasts rank 0's model; if run.deferred is not null, without the values of
// parameters, which load_initial_weights() or a checkpoint sets. Afterwards the ranks draw different random numbers
// (dropout), each reproducibly. Throws Config or PeerError.
SharedModel share_model(World& world, const PreparedRun& run);

}  // namespace lockstep::trainer
