#include "formats/tokenizer/models/model.h"

#include <fmt/format.h>

#include <atomic>

#include "core/printable.h"
#include "formats/tokenizer/models/byte_pairs.h"
#include "formats/tokenizer/models/unigram.h"
#include "formats/tokenizer/models/word_level.h"
#include "formats/tokenizer/models/word_piece.h"
#include "formats/tokenizer/text/json_kinds.h"

namespace lockstep::formats {

TokenModel::TokenModel(Vocabulary vocabulary) : vocabulary_(std::move(vocabulary)) {
  static std::atomic<uint64_t> models = 0;
  number_ = ++models;
}

void TokenModel::encode_cached(std::string_view word, std::vector<int32_t>& out) const {
  if (word.size() > WordCache::kMaxWord) return encode_word(word, out);
  auto& cache = WordCache::of(number_);
  if (const auto known = cache.find(word)) {
    out.insert(out.end(), known->begin(), known->end());
    return;
  }
  const auto before = out.size();
  encode_word(word, out);
  cache.add(word, std::span(out).subspan(before));
}

void TokenModel::fail_unknown(std::string_view what) {
  throw config_error(fmt::format("the tokenizer has no token for '{}' and none for unknown text",
                                 printable(what)));
}

std::unique_ptr<TokenModel> make_model(const JsonPart& json) {
  static const JsonKinds<TokenModel> kinds = {
      {"BPE", make_kind<TokenModel, BytePairs>},
      {"Unigram", make_kind<TokenModel, Unigram>},
      {"WordLevel", make_kind<TokenModel, WordLevel>},
      {"WordPiece", make_kind<TokenModel, WordPiece>},
  };
  return make_any(kinds, json);
}

}  // namespace lockstep::formats
