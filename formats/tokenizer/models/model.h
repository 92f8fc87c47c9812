// What turns a piece of a text into tokens.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "formats/tokenizer/models/vocabulary.h"
#include "formats/tokenizer/models/word_cache.h"

namespace lockstep::formats {

// Thread-safe.
class TokenModel {
 public:
  virtual ~TokenModel() = default;
  TokenModel(const TokenModel&) = delete;
  TokenModel& operator=(const TokenModel&) = delete;

  // Appends the tokens of `piece`, UTF-8 that is not empty. Throws Config if a part of it is not in
  // the vocabulary and there is no token for unknown text.
  virtual void encode(std::string_view piece, std::vector<int32_t>& out) const {
    encode_cached(piece, out);
  }

  const Vocabulary& vocabulary() const { return vocabulary_; }

 protected:
  explicit TokenModel(Vocabulary vocabulary);

  // Appends the tokens of `word`, from the cache if it is there, else of encode_word().
  void encode_cached(std::string_view word, std::vector<int32_t>& out) const;
  virtual void encode_word(std::string_view word, std::vector<int32_t>& out) const = 0;

  // Throws Config: `what` is not in the vocabulary.
  [[noreturn]] static void fail_unknown(std::string_view what);

 private:
  Vocabulary vocabulary_;
  uint64_t number_;  // of this model in the process
};

// The model that `json` describes. Throws Config.
std::unique_ptr<TokenModel> make_model(const JsonPart& json);

}  // namespace lockstep::formats
