// Initial weights of a new run (train.init_from): from another run or an external model.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "distributed/sharding/shard_strategy.h"
#include "lockstep/model.h"
#include "lockstep/world.h"

namespace lockstep::trainer {

// Collective: rank 0 reads the safetensors file `path`, or the files of the index `path`
// (formats/safetensors_index.h), and broadcasts the tensors to all ranks' `model`, so
// that only rank 0 needs to see the files. Names and shapes must be exactly those of the model's
// parameters and buffers; values are converted to the model's dtypes. `except`: tensors that are
// unchanged in the model and ignored in the file (trainer/checkpoint/chosen_weights.h). `names`: see
// InitialWeights. `sharding`: of the model; null: none. Throws
// Config on every rank when they do not match, or when the file cannot be read; the model is then
// unchanged.
void load_initial_weights(World& world, Model& model, const std::filesystem::path& path,
                          const std::vector<std::string>& except = {},
                          const std::map<std::string, std::string>& names = {},
                          const distributed::Sharding* sharding = nullptr);

// The names in `file` of the weights of `model`, if it is the model's own file; otherwise empty.
std::map<std::string, std::string> names_in_own_file(const Model& model,
                                                     const std::filesystem::path& file);

}  // namespace lockstep::trainer
