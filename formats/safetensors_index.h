// The index of a model whose tensors are in several safetensors files: {"metadata": {"total_size":
// bytes}, "weight_map": {tensor: file}}. Torch-free, so that it can be fuzzed on its own.
// Source: model.safetensors.index.json as written and read by Hugging Face's transformers.
#pragma once

#include <cstddef>
#include <map>
#include <string>

namespace lockstep::formats {

inline constexpr const char* kSafetensorsIndexEnding = ".safetensors.index.json";

// `files`: the file of each tensor, in the directory of the index. `total_bytes`: of all tensors.
std::string make_safetensors_index(const std::map<std::string, std::string>& files,
                                   size_t total_bytes);

// Returns the file of each tensor. Only plain file names are accepted: none leaves the directory.
// `name`: of the index, for messages. Throws Environment.
std::map<std::string, std::string> parse_safetensors_index(const std::string& text,
                                                           const std::string& name);

}  // namespace lockstep::formats
