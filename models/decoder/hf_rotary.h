// Reads the parts of a config.json that decoders and encoders share: activations and rotary position
// embeddings. No LibTorch.
#pragma once

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

}  // namespace lockstep::models
