// Post-processors of a tokenizer.json: add the special tokens that a model expects around a text or
// a pair of texts, and token type ids.
#pragma once

#include <memory>
#include <vector>

#include "formats/tokenizer/steps/encoded_text.h"
#include "formats/tokenizer/text/json_part.h"

namespace lockstep::formats {

// Thread-safe.
class PostProcessor {
 public:
  virtual ~PostProcessor() = default;
  // Changes one or two texts; together they are the result. Throws Config if it cannot be applied
  // to the result of the one before it.
  virtual void apply(std::vector<EncodedText>& texts) const = 0;
};

// The post-processor that `json` describes; null if `json` is null. Throws Config.
std::unique_ptr<PostProcessor> make_post_processor(const JsonPart& json);

}  // namespace lockstep::formats
