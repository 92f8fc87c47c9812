#include "formats/tokenizer/models/model.h"

#include <fmt/format.h>

#include <atomic>
#include <map>

#include "core/printable.h"
#include "formats/tokenizer/models/byte_pairs.h"
#include "formats/tokenizer/models/unigram.h"
#include "formats/tokenizer/models/word_level.h"
#include "formats/tokenizer/models/word_piece.h"

namespace lockstep::formats {
namespace {

template <class Model>
std::unique_ptr<TokenModel> new_model(const JsonPart& json) {
  return std::make_unique<Model>(json);
}

}  // namespace

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
  using Make = std::unique_ptr<TokenModel> (*)(const JsonPart&);
  static const std::map<std::string, Make> kinds = {
      {"BPE", new_model<BytePairs>},
      {"Unigram", new_model<Unigram>},
      {"WordLevel", new_model<WordLevel>},
      {"WordPiece", new_model<WordPiece>},
  };
  const auto found = kinds.find(json.type());
  if (found == kinds.end()) throw json.unsupported(names_of(kinds));
  return found->second(json);
}

}  // namespace lockstep::formats
