// Weights that a new run begins with (train.init_from): another run's, or a model's from elsewhere.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "lockstep/model.h"
#include "lockstep/world.h"

namespace lockstep::trainer {

// Collective: rank 0 reads the safetensors file `path`, or the files of the index `path`
// (trainer/checkpoint/safetensors_index.h), and sends the tensors to all ranks' `model`, so that
// only rank 0 needs to see them. Names and shapes must be those of the model's parameters and
// buffers, no more and no less; numbers are converted to the model's type. `except`: what stays as
// it is, in the model, and is ignored in the file (trainer/checkpoint/chosen_weights.h). Throws
// Config on every rank when they are not, or when the file cannot be read; the model is then as it
// was.
void load_initial_weights(World& world, Model& model, const std::filesystem::path& path,
                          const std::vector<std::string>& except = {});

}  // namespace lockstep::trainer
