// Reads the config.json of a model in Hugging Face's layout. No LibTorch, so that it can be fuzzed
// separately.
#pragma once

#include <string>
#include <string_view>

#include "models/decoder/decoder_config.h"

namespace lockstep::models {

// The architecture that `json` describes, with the defaults of transformers. `where`: for messages.
// Throws Config: invalid JSON, a family or feature that is not supported, a value that is missing or
// out of range.
DecoderConfig parse_hf_config(std::string_view json, const std::string& where);

// The values of "model_type" that parse_hf_config() supports.
std::string supported_families();

}  // namespace lockstep::models
