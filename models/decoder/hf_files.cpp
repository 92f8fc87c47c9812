#include "models/decoder/hf_files.h"

#include <array>

namespace lockstep::models {

std::vector<std::filesystem::path> companions_of(const std::filesystem::path& directory) {
  constexpr std::array kNames = {"config.json",
                                 "generation_config.json",
                                 "tokenizer.json",
                                 "tokenizer_config.json",
                                 "special_tokens_map.json",
                                 "added_tokens.json",
                                 "vocab.json",
                                 "merges.txt",
                                 "tokenizer.model",
                                 "chat_template.jinja"};
  std::vector<std::filesystem::path> files;
  std::error_code ignored;
  for (const auto* name : kNames)
    if (std::filesystem::is_regular_file(directory / name, ignored))
      files.push_back(directory / name);
  return files;
}

}  // namespace lockstep::models
