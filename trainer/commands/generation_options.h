// The options of `lockstep-trainer --generate`, and where commands write their results.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/rank_env.h"
#include "models/sampling.h"
#include "trainer/generation/beam_search.h"

namespace lockstep::trainer {

struct GenerationArguments {
  std::optional<std::string> prompts_file;  // --generate
  std::vector<std::string> prompts;         // --prompt
  std::optional<std::string> tokenizer;
  std::optional<std::string> out;  // also of --evaluate
  int64_t max_tokens = 128, batch_size = 8, seed = 0;
  int64_t samples = 1;   // texts of each prompt
  bool is_chat = false;  // a prompt that is text is the message of a user
  bool has_batch_size = false, has_length_penalty = false;
  models::Sampling sampling;
  BeamOptions beams;
  std::vector<std::string> stops;
  std::string first_option;  // the first one as typed, without its value; empty: none but --out

  bool has_prompts() const { return prompts_file || !prompts.empty(); }
};

// If `argument` ("--seed" or "--seed=3") is one of the options, stores it and returns true.
// `next`: takes the argument that follows. Throws Config for a value that is not valid.
bool read_generation_option(const std::string& argument,
                            const std::function<std::string(const char* what)>& next,
                            GenerationArguments& out);

// Throws Config if options have no effect.
void verify_generation_options(const GenerationArguments& arguments);

// On rank 0, which writes the file: throws Config if --out is a directory or in one that does not
// exist.
void verify_out(const std::optional<std::string>& out, const RankEnv& ranks);

std::vector<std::string> generation_option_names();

}  // namespace lockstep::trainer
