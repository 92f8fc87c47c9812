// A record of a chat dataset as a conversation. No LibTorch.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::formats {

struct Conversation {
  nlohmann::ordered_json messages;  // [{"role": ..., "content": ...}, ...]; null: plain text
  nlohmann::ordered_json tools;     // for the template; null: none
  std::string text;                 // without messages
  size_t first_answer = 0;          // messages before this are not answers

  bool is_text() const { return messages.is_null(); }
};

// Whether a message is one that the model is to learn.
bool is_answer(const nlohmann::ordered_json& message);

// The object of a line. Throws Config: what is wrong, without the place.
nlohmann::ordered_json parse_record(std::string_view line);

// Parses a line of one of the formats
//   {"messages": [{"role": "user", "content": "..."}, ...]}
//   {"conversations": [{"from": "human", "value": "..."}, ...], "system": "..."}
//   {"prompt": ..., "completion": ...}, both texts or both lists of messages
//   {"instruction": "...", "input": "...", "output": "..."}
//   {"text": "..."}
// All but the last one may have "tools": a list, or its JSON as a text. Other keys are ignored.
// Throws Config: what is wrong, without the place.
Conversation parse_conversation(std::string_view line);

}  // namespace lockstep::formats
