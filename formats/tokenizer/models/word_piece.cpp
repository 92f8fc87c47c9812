#include "formats/tokenizer/models/word_piece.h"

#include <algorithm>

#include "formats/tokenizer/text/unicode.h"

namespace lockstep::formats {

WordPiece::WordPiece(const JsonPart& json)
    : TokenModel(Vocabulary::of_map(json.part("vocab"))),
      prefix_(json.text("continuing_subword_prefix", "##")),
      max_characters_(
          static_cast<size_t>(json.number("max_input_chars_per_word", 0, 1'000'000, 100))),
      max_token_(0),
      unknown_(vocabulary().find(json.text("unk_token", "[UNK]"))) {
  for (size_t id = 0; id < vocabulary().end(); ++id)
    if (const auto* token = vocabulary().find(static_cast<int32_t>(id)))
      max_token_ = std::max(max_token_, token->size());
}

void WordPiece::encode_word(std::string_view word, std::vector<int32_t>& out) const {
  const auto before = out.size();
  if (count_characters(word) <= max_characters_ && encode_parts(word, out)) return;
  out.resize(before);
  if (unknown_ < 0) fail_unknown(word);
  out.push_back(unknown_);
}

bool WordPiece::encode_parts(std::string_view word, std::vector<int32_t>& out) const {
  std::string part;
  for (size_t begin = 0; begin < word.size();) {
    part = begin > 0 ? prefix_ : "";
    const auto before = part.size();
    part += word.substr(begin, max_token_);
    int32_t id = -1;
    while (part.size() > before && (id = vocabulary().find(part)) < 0) part.pop_back();
    if (id < 0) return false;
    out.push_back(id);
    begin += part.size() - before;
  }
  return true;
}

}  // namespace lockstep::formats
