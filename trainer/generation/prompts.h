// Prompts from a file. No LibTorch.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::trainer {

// A prompt, as text or as tokens.
struct GivenPrompt {
  std::string text;
  std::optional<std::vector<int64_t>> tokens;
};

// Parses untrusted text: each line that is not blank is a prompt; if `is_json`, an object with
// "prompt", a string, or "tokens", a list of integers. Throws Config, naming file `name` and line:
// invalid UTF-8, something else than such an object, no prompt.
std::vector<GivenPrompt> parse_prompts(std::string_view text, bool is_json,
                                       const std::string& name);

}  // namespace lockstep::trainer
