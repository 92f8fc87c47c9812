// Pre-tokenizers of a tokenizer.json: split a normalized text into pieces.
#pragma once

#include <memory>

#include "formats/tokenizer/steps/pieces.h"

namespace lockstep::formats {

// The pattern of GPT-2: words with the space before them, numbers, punctuation.
extern const char* const kGpt2Pattern;

// Thread-safe.
class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  // Calls `use` for each piece of `piece`, in order; pieces exist only during the call. Throws
  // Config if a regular expression takes too long.
  virtual void split(const Piece& piece, const PieceUse& use) const = 0;
};

// The pre-tokenizer that `json` describes; null if `json` is null. Throws Config.
std::unique_ptr<PreTokenizer> make_pre_tokenizer(const JsonPart& json);

}  // namespace lockstep::formats
