#include "data/sets/text_encoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/printable.h"
#include "lockstep/error.h"

namespace lockstep::data {
namespace {

std::optional<int32_t> first_of(const formats::Tokenizer& tokenizer,
                                std::array<const char*, 2> names) {
  for (const auto* name : names)
    if (const auto token = tokenizer.find(name)) return token;
  return std::nullopt;
}

}  // namespace

TextEncoder::TextEncoder(const std::filesystem::path& path)
    : name_(printable(formats::tokenizer_file(path).string(), 400)),
      tokenizer_(formats::read_tokenizer(path)),
      begin_(first_of(tokenizer_, {"[CLS]", "<s>"})),
      end_(first_of(tokenizer_, {"[SEP]", "</s>"})),
      padding_(first_of(tokenizer_, {"[PAD]", "<pad>"})),
      mask_(first_of(tokenizer_, {"[MASK]", "<mask>"})) {}

int32_t TextEncoder::required(std::optional<int32_t> token, const char* what,
                              const char* names) const {
  if (token) return *token;
  throw config_error(
      fmt::format("dataset labeled_text: {} has no {} token ({})", name_, what, names));
}

bool TextEncoder::is_special(int32_t token) const {
  return token == begin_ || token == end_ || token == padding_ || token == mask_;
}

EncodedText TextEncoder::encode(const formats::LabeledText& row, int64_t length) {
  EncodedText encoded;
  const auto room = static_cast<size_t>(length) - (end_ ? 1 : 0);
  if (begin_) encoded.tokens.push_back(*begin_);
  encoded.words.assign(encoded.tokens.size(), -1);
  for (size_t i = 0; i < row.words.size() && encoded.tokens.size() < room; ++i) {
    const auto before = encoded.tokens.size();
    // Words are separated by spaces, which byte-level tokens contain.
    tokenizer_.encode(i == 0 ? row.words[i] : ' ' + row.words[i], encoded.tokens);
    encoded.words.resize(encoded.tokens.size(), -1);
    if (row.is_words && encoded.tokens.size() > before)
      encoded.words[before] = static_cast<int32_t>(i);
  }
  encoded.tokens.resize(std::min(encoded.tokens.size(), room));
  encoded.words.resize(encoded.tokens.size());
  if (end_) {
    encoded.tokens.push_back(*end_);
    encoded.words.push_back(-1);
  }
  return encoded;
}

}  // namespace lockstep::data
