// The options of `lockstep-trainer --generate`.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "models/sampling.h"

namespace lockstep::trainer {

struct GenerationArguments {
  std::optional<std::string> prompts_file;  // --generate
  std::vector<std::string> prompts;         // --prompt
  std::optional<std::string> tokenizer, out;
  int64_t max_tokens = 128, batch_size = 8, seed = 0;
  models::Sampling sampling;
  std::vector<std::string> stops;
  std::string first_option;  // the first one as it was typed, without its value; empty: none

  bool has_prompts() const { return prompts_file || !prompts.empty(); }
};

// If `argument` ("--seed" or "--seed=3") is one of the options, stores it and returns true.
// `next`: takes the argument that follows. Throws Config for a value that is not valid.
bool read_generation_option(const std::string& argument,
                            const std::function<std::string(const char* what)>& next,
                            GenerationArguments& out);

// Throws Config if options have no effect.
void verify_generation_options(const GenerationArguments& arguments);

std::vector<std::string> generation_option_names();

}  // namespace lockstep::trainer
