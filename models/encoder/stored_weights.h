// Which tensors of a file are the initial weights of an encoder: files differ in their heads, and old
// ones in names. No LibTorch.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "models/encoder/encoder_config.h"

namespace lockstep::models {

using TensorShapes = std::map<std::string, std::vector<int64_t>>;

struct StoredWeights {
  std::map<std::string, std::string> names;  // in the file, by those in the model
  std::vector<std::string> fresh;  // of the head, not in the file: begin with random values
};

// `model`: the shapes of the parameters. `stored`: those of the file `file`. A tensor of the encoder
// that is not in the file is listed under its own name. Throws Config if the file has layers that the
// model does not have.
StoredWeights match_weights(const TensorShapes& model, const TensorShapes& stored,
                            const std::string& root, const std::string& file);

}  // namespace lockstep::models
