#include "data/sets/text_encoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

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

namespace {

// How many tokens of two texts remain: the longer one is cut first, as transformers does it.
std::pair<size_t, size_t> cut_longest_first(size_t first, size_t second, size_t room) {
  if (first + second <= room) return {first, second};
  auto [shorter, longer] = std::minmax(first, second);
  const bool is_swapped = first > second;
  size_t kept = shorter, other = shorter > room ? shorter : std::max(shorter, room - shorter);
  if (kept + other > room) {
    kept = room / 2;
    other = kept + room % 2;
  }
  return is_swapped ? std::pair(other, kept) : std::pair(kept, other);
}

}  // namespace

EncodedText TextEncoder::encode_pair(const std::string& first, const std::string& second,
                                     int64_t length) const {
  std::vector<int32_t> first_tokens, second_tokens;
  tokenizer_.encode(first, first_tokens);
  tokenizer_.encode(second, second_tokens);
  const auto whole = tokenizer_.encode_for_model(first, second);
  const auto extra = whole.ids.size() - first_tokens.size() - second_tokens.size();
  const auto room = static_cast<size_t>(length) - std::min(extra, static_cast<size_t>(length));
  const auto [kept_first, kept_second] =
      cut_longest_first(first_tokens.size(), second_tokens.size(), room);
  // Both texts stand in the whole, in this order.
  const auto at_first = std::ranges::search(whole.ids, first_tokens);
  const auto at_second =
      std::search(at_first.end(), whole.ids.end(), second_tokens.begin(), second_tokens.end());
  const auto begin_first = at_first.begin() - whole.ids.begin();
  const auto begin_second = at_second - whole.ids.begin();
  EncodedText encoded;
  for (ptrdiff_t i = 0; i < std::ssize(whole.ids); ++i) {
    const auto is_cut = [&](ptrdiff_t begin, size_t kept, size_t all) {
      return i >= begin + static_cast<ptrdiff_t>(kept) && i < begin + static_cast<ptrdiff_t>(all);
    };
    if (is_cut(begin_first, kept_first, first_tokens.size()) ||
        is_cut(begin_second, kept_second, second_tokens.size()))
      continue;
    encoded.tokens.push_back(whole.ids[static_cast<size_t>(i)]);
    encoded.types.push_back(whole.type_ids[static_cast<size_t>(i)]);
  }
  encoded.words.assign(encoded.tokens.size(), -1);
  return encoded;
}

EncodedText TextEncoder::encode(const formats::LabeledText& row, int64_t length) {
  if (row.pair) return encode_pair(row.words.front(), *row.pair, length);
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
