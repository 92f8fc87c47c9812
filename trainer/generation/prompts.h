// Prompts from a file. No LibTorch.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/chat/conversation.h"

namespace lockstep::trainer {

// A prompt, as text, as tokens, or as a conversation of which the next answer is written.
struct GivenPrompt {
  std::string where;  // for messages: "FILE:LINE" or an option
  std::string text = {};
  std::optional<std::vector<int64_t>> tokens = {};
  std::optional<formats::Conversation> chat = {};
};

// Parses untrusted text: each line that is not blank is a prompt; if `is_json`, an object with
// "prompt", a string, with "tokens", a list of integers, or with "messages" (and "tools") of a
// conversation, the last of which is not an answer. Throws Config, naming file `name` and line:
// invalid UTF-8, something else than such an object, no prompt.
std::vector<GivenPrompt> parse_prompts(std::string_view text, bool is_json,
                                       const std::string& name);

// Makes a text the message of a user. Tokens and conversations are left as they are.
void make_conversation(GivenPrompt& prompt);

}  // namespace lockstep::trainer
