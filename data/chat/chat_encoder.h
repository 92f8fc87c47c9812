// Conversations as tokens, with the tokens that are answers. No LibTorch.
#pragma once

#include <cstdint>
#include <ctime>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/chat/chat_template.h"
#include "formats/tokenizer/tokenizer.h"

namespace lockstep::data {

struct EncodedChat {
  std::vector<int32_t> tokens;
  std::vector<bool> answers;  // of each token: whether it belongs to an answer
};

// Thread: one at a time.
class ChatEncoder {
 public:
  // `directory`: with tokenizer.json and tokenizer_config.json. Throws Config.
  ChatEncoder(const std::filesystem::path& directory, formats::ChatTemplateOptions options);

  // The tokens of a conversation are those of its text as a whole. A token belongs to an answer if
  // it has a byte of it. A plain text is an answer as a whole, and ends with eos_token. Throws
  // Config, without the place.
  EncodedChat encode(const formats::Conversation& conversation);

  // The tokens of `prompt`, then those of `answer` and eos_token, which are the answer.
  EncodedChat encode_answer(const std::string& prompt, const std::string& answer);

  const formats::Tokenizer& tokenizer() const { return tokenizer_; }
  int64_t vocabulary_size() const { return static_cast<int64_t>(tokenizer_.vocabulary_size()); }
  // pad_token, or eos_token, or 0.
  int32_t padding() const;

 private:
  formats::ChatTemplate template_;
  formats::Tokenizer tokenizer_;
};

// A date of a run file, YYYY-MM-DD. Throws Config. `dataset`: for the message.
std::optional<std::tm> parse_date(const std::optional<std::string>& text, const char* dataset);

}  // namespace lockstep::data
