// Reads the parts of a config.json that decoders and encoders share: activations, rotary position
// embeddings and sliding windows. No LibTorch.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "models/decoder/decoder_config.h"
#include "models/hf/hf_map.h"

namespace lockstep::models {

// The activation called map[key], or `fallback` if there is none. Throws Config.
Activation activation_of(const HfMap& map, const char* key, const char* fallback);

// The map with the settings for all layers, or for one type of layers: since transformers 5,
// "rope_parameters" has all of them; before, "rope_theta" and "rope_scaling".
HfMap rope_settings(const HfMap& config, const char* layer_type);

// `map`: from rope_settings(). `theta`: if it has none. `context`: tokens of a sample. Throws Config.
RotaryConfig rotary_of(const HfMap& map, double theta, int64_t context);

// Of each layer, whether "layer_types" gives it a sliding window; nullopt: the file has no such list.
// Throws Config.
std::optional<std::vector<bool>> read_sliding_layers(const HfMap& config, int64_t layers);

}  // namespace lockstep::models
