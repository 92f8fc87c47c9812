// The index of a model whose tensors are in several safetensors files: {"metadata": {"total_size":
// bytes}, "weight_map": {tensor: file}}. Torch-free, so that hostile bytes can be thrown at it
// alone.
// Source: model.safetensors.index.json as Hugging Face's transformers write and read it.
#pragma once

#include <cstddef>
#include <map>
#include <string>

namespace lockstep::trainer {

inline constexpr const char* kSafetensorsIndexEnding = ".safetensors.index.json";

// `files`: of each tensor, in the directory of the index. `total_bytes`: of the tensors.
std::string make_safetensors_index(const std::map<std::string, std::string>& files,
                                   size_t total_bytes);

// The file of each tensor. Every one is a plain name: none leaves the directory. `name` stands for
// the index in messages. Throws Environment.
std::map<std::string, std::string> parse_safetensors_index(const std::string& text,
                                                           const std::string& name);

}  // namespace lockstep::trainer
