// The files of a model directory in Hugging Face's layout.
#pragma once

#include <filesystem>
#include <vector>

namespace lockstep::models {

// Those that transformers reads, other than weights: configuration and tokenizer.
std::vector<std::filesystem::path> companions_of(const std::filesystem::path& directory);

}  // namespace lockstep::models
