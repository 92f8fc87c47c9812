// Initial weights of a new run (train.init_from): from another run or an external model.
#pragma once

#include <string>

#include "distributed/sharding/shard_strategy.h"
#include "lockstep/model.h"
#include "lockstep/world.h"
#include "trainer/checkpoint/base_weights.h"

namespace lockstep::trainer {

// Whether a new run loads or computes this weight of the model.
bool is_loaded(const std::string& name, const InitialWeights& weights);

// Collective: rank 0 reads the safetensors file `weights.file`, or the files of that index
// (formats/safetensors_index.h), and broadcasts the tensors to all ranks' `model`, so
// that only rank 0 needs to see the files. Names and shapes must be exactly those of the model's
// parameters and buffers; values are converted to the model's dtypes. `weights.except`: tensors that
// are unchanged in the model and ignored in the file (trainer/checkpoint/chosen_weights.h).
// `sharding`: of the model; null: none. Returns what checkpoints refer to (weights.is_base). Throws
// Config on every rank when they do not match, or when the file cannot be read; the model is then
// unchanged.
BaseWeights load_initial_weights(World& world, Model& model, const InitialWeights& weights,
                                 const distributed::Sharding* sharding = nullptr);

}  // namespace lockstep::trainer
