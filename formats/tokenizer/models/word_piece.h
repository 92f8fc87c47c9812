// WordPiece: a word is the longest token that it begins with, then the longest tokens with a prefix
// that the rest begins with. Source: BERT's WordpieceTokenizer.
#pragma once

#include <string>

#include "formats/tokenizer/models/model.h"

namespace lockstep::formats {

class WordPiece : public TokenModel {
 public:
  // Throws Config.
  explicit WordPiece(const JsonPart& json);

 private:
  void encode_word(std::string_view word, std::vector<int32_t>& out) const override;
  // False if a part of the word is not in the vocabulary; `out` is then incomplete.
  bool encode_parts(std::string_view word, std::vector<int32_t>& out) const;

  std::string prefix_;  // of tokens within a word
  size_t max_characters_, max_token_;
  int32_t unknown_;
};

}  // namespace lockstep::formats
