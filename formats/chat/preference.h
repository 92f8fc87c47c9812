// A record of a preference dataset: two answers to one prompt, of which one is preferred. No
// LibTorch.
#pragma once

#include <string>
#include <string_view>

#include "formats/chat/conversation.h"

namespace lockstep::formats {

struct Preference {
  std::string prompt;             // of texts; the answers follow it without a chat template
  Conversation chosen, rejected;  // texts, or whole conversations
};

// Parses a line of one of the formats
//   {"prompt": "...", "chosen": "...", "rejected": "..."}
//   {"prompt": [{"role": "user", "content": "..."}, ...], "chosen": [...], "rejected": [...]}
//   {"chosen": [...], "rejected": [...]}: conversations that begin with the same messages
// Messages may have "tools", as in a Conversation. Other keys are ignored. Throws Config: what is
// wrong, without the place.
Preference parse_preference(std::string_view line);

}  // namespace lockstep::formats
