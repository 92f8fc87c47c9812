// The text of a sequence of tokens while it is generated: stop strings, and characters of several
// tokens.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "trainer/generation/text_codec.h"

namespace lockstep::trainer {

class TextStream {
 public:
  // `codec`: null: there is no text. The arguments outlive this.
  TextStream(const TextCodec* codec, const std::vector<int64_t>& prompt,
             const std::vector<std::string>& stops);

  // Adds tokens. Returns whether the text now contains a stop string; it is cut in front of the
  // first one.
  bool add(std::span<const int64_t> tokens);

  // The text without that of the prompt, as valid UTF-8.
  std::string text() const;

  // What was added since the last call and cannot change any more: without a character that is
  // incomplete, and without what may be the beginning of a stop string. `is_last`: all of it.
  std::string take(bool is_last);

 private:
  size_t settled() const;

  const TextCodec* codec_;
  const std::vector<std::string>& stops_;
  std::vector<int64_t> tokens_;  // with those of the prompt
  std::string text_;
  size_t prompt_bytes_ = 0, taken_ = 0;
};

// `text` with U+FFFD instead of each byte that is not valid UTF-8.
std::string valid_utf8(std::string_view text);

}  // namespace lockstep::trainer
