// Text to tokens and back, for prompts and generated text.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "formats/tokenizer/tokenizer.h"

namespace lockstep::trainer {

// Thread: one at a time.
class TextCodec {
 public:
  // `tokenizer`: a tokenizer.json, a directory with one, or "bytes" for bytes as tokens and 256 as
  // the end of a text. `option`: where it was given, for messages. Throws Config.
  TextCodec(const std::string& tokenizer, const std::string& option);

  // The tokens of a prompt, which begins as the tokenizer has it: with bos_token if "add_bos_token"
  // of the tokenizer_config.json next to it is true, not if it is false; else with the special
  // tokens that tokenizer.json puts in front. Not if the text has them already. Throws Config.
  std::vector<int64_t> encode(const std::string& text);
  // The tokens of a rendered conversation, which has its special tokens already. Throws Config.
  std::vector<int64_t> encode_chat(const std::string& text);
  // The last character may be incomplete.
  std::string decode(const std::vector<int64_t>& tokens) const;

  std::optional<int64_t> find(const std::string& token) const;
  // The token that `lockstep-data tokenize` writes after a document, if the tokenizer has it.
  std::optional<int64_t> separator() const;

 private:
  std::vector<int32_t> narrow_tokens(const std::string& text);

  std::optional<formats::Tokenizer> tokenizer_;  // none: bytes
  std::vector<int32_t> beginning_;               // of a prompt
};

// The tokenizer of the directory of a model, if it has one.
std::optional<std::string> tokenizer_of(const std::filesystem::path& model_directory);

// The tokens that end a text: "eos_token_id" of generation_config.json or config.json, else
// "eos_token" of tokenizer_config.json, in the directory of the model; else the separator of
// `codec`. The path may be empty, and `codec` null. Throws Config: a file that is
// corrupt.
std::vector<int64_t> end_tokens_of(const std::filesystem::path& model_directory,
                                   const TextCodec* codec);

}  // namespace lockstep::trainer
