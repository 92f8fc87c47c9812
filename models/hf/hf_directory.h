// A model directory in Hugging Face's layout: config.json, weights in safetensors files, tokenizer.
// No LibTorch.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace lockstep::models {

struct HfDirectory {
  std::string model;  // name of the model in messages, e.g. "hf"
  std::filesystem::path path;

  struct ConfigFile {
    std::string text, name;  // content and path, for messages
  };
  // Reads config.json. Throws Config if there is none, Environment if it cannot be read.
  ConfigFile config() const;

  // The safetensors file with the weights, or the index of several. Throws Config if there is none.
  std::filesystem::path weights() const;

  // The files that transformers reads, other than weights: configuration and tokenizer.
  std::vector<std::filesystem::path> companions() const;
};

// The shape of each tensor in `weights` (HfDirectory::weights()). Throws Config if a file is missing
// or corrupt.
std::map<std::string, std::vector<int64_t>> stored_shapes(const std::filesystem::path& weights);

}  // namespace lockstep::models
