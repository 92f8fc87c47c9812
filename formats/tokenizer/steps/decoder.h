// Decoders of a tokenizer.json: turn the spellings of tokens into text.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "formats/tokenizer/text/json_part.h"

namespace lockstep::formats {

// Thread-safe.
class TokenDecoder {
 public:
  virtual ~TokenDecoder() = default;
  // Changes `parts`; together they are the text after the last decoder. Bytes that are not UTF-8
  // become U+FFFD, unless `keeps_bytes`. Throws Config if a regular expression takes too long.
  virtual void apply(std::vector<std::string>& parts, bool keeps_bytes) const = 0;
};

// The decoder that `json` describes; null if `json` is null. Throws Config.
std::unique_ptr<TokenDecoder> make_decoder(const JsonPart& json);

}  // namespace lockstep::formats
