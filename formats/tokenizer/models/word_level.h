// A vocabulary of whole words.
#pragma once

#include <string>

#include "formats/tokenizer/models/model.h"

namespace lockstep::formats {

class WordLevel : public TokenModel {
 public:
  // Throws Config.
  explicit WordLevel(const JsonPart& json)
      : TokenModel(Vocabulary::of_map(json.part("vocab"))),
        unknown_(vocabulary().find(json.text("unk_token"))) {}

  void encode(std::string_view piece, std::vector<int32_t>& out) const override {
    encode_word(piece, out);
  }

 private:
  void encode_word(std::string_view word, std::vector<int32_t>& out) const override {
    const auto id = vocabulary().find(word);
    if (id < 0 && unknown_ < 0) fail_unknown(word);
    out.push_back(id < 0 ? unknown_ : id);
  }

  int32_t unknown_;
};

}  // namespace lockstep::formats
