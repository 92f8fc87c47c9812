// Normalizers of a tokenizer.json: change a text before it is split.
#pragma once

#include <memory>
#include <string>

#include "formats/tokenizer/text/json_part.h"

namespace lockstep::formats {

struct NormalText {
  std::string text;  // UTF-8
  // Whether the text still begins with the first character of what it was made of.
  bool from_start = true;
};

// Thread-safe.
class Normalizer {
 public:
  virtual ~Normalizer() = default;
  // Throws Config if a regular expression takes too long.
  virtual void apply(NormalText& text) const = 0;
};

// The normalizer that `json` describes; null if `json` is null. Throws Config.
std::unique_ptr<Normalizer> make_normalizer(const JsonPart& json);

}  // namespace lockstep::formats
