#include "formats/tokenizer/models/byte_pairs.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/printable.h"
#include "formats/tokenizer/models/unigram.h"
#include "formats/tokenizer/text/unicode.h"

namespace lockstep::formats {
namespace {

constexpr size_t kMaxFew = 24;            // tokens that are merged without a queue
constexpr size_t kMaxWhole = 24;          // bytes of a piece that is not cut
constexpr char32_t kCharacters = 0x3000;  // that are found by index

bool is_byte_token(std::string_view token) {
  return token.size() == 6 && token.starts_with("<0x") && token.back() == '>';
}

}  // namespace

BytePairs::BytePairs(const JsonPart& json)
    : TokenModel(Vocabulary::of_map(json.part("vocab"))),
      prefix_(json.text("continuing_subword_prefix", "")),
      suffix_(json.text("end_of_word_suffix", "")),
      unknown_name_(json.text("unk_token", "")),
      fuses_unknown_(json.flag("fuse_unk", false)),
      whole_words_(json.flag("ignore_merges", false)) {
  if (json.has("dropout") && json.value()["dropout"] != 0)
    throw json.refused("it has a dropout: only one without random tokens is supported");
  unknown_ = vocabulary().find(unknown_name_);
  if (json.flag("byte_fallback", false)) bytes_ = byte_tokens(vocabulary());
  characters_.assign(kCharacters, -1);
  for (size_t id = 0; id < vocabulary().end(); ++id)
    if (const auto* token = vocabulary().find(static_cast<int32_t>(id)))
      if (!token->empty() && utf8_size((*token)[0]) == token->size())
        if (const auto character = first_character(*token); character < kCharacters)
          characters_[character] = static_cast<int32_t>(id);
  cuts_ = prefix_.empty() && suffix_.empty() && !whole_words_;
  read_merges(json);
}

void BytePairs::read_merges(const JsonPart& json) {
  const auto part = json.part("merges");
  const auto& merges = part.value();
  if (!merges.is_array() || merges.size() >= kMaxTokens) throw json.refused("it has no merges");
  for (size_t i = 0; i < merges.size(); ++i) {
    const auto& merge = merges[i];
    if (merge.is_string()) {
      const auto& text = merge.get_ref<const std::string&>();
      if (text.starts_with("#version")) continue;
      const auto blank = text.find(' ');
      if (blank == text.npos || text.find(' ', blank + 1) != text.npos)
        throw part.refused(fmt::format("merge {} is not two tokens", i));
      add_merge(part, std::string_view(text).substr(0, blank),
                std::string_view(text).substr(blank + 1));
    } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() &&
               merge[1].is_string()) {
      add_merge(part, merge[0].get_ref<const std::string&>(),
                merge[1].get_ref<const std::string&>());
    } else {
      throw part.refused(fmt::format("merge {} is not two tokens", i));
    }
  }
}

void BytePairs::add_merge(const JsonPart& json, std::string_view first, std::string_view second) {
  const auto number = [&](std::string_view token) {
    const auto id = vocabulary().find(token);
    if (id < 0)
      throw json.refused(
          fmt::format("'{}' of a merge is not a token of the vocabulary", printable(token)));
    return static_cast<uint32_t>(id);
  };
  const auto left = number(first), right = number(second);
  if (second.size() < prefix_.size())
    throw json.refused(fmt::format("'{}' has no prefix", printable(second)));
  const auto result = number(std::string(first) + std::string(second.substr(prefix_.size())));
  // Of equal merges, the last one counts.
  merges_.set(left, right, ++merge_count_, static_cast<int32_t>(result));
  if (first.empty() || second.empty()) return;
  joined_.set(last_character(first), first_character(second), 0, 0);
  // Such tokens are not made of the characters that they are spelled with.
  const auto special = [&](std::string_view token) {
    return token == unknown_name_ || (!bytes_.empty() && is_byte_token(token));
  };
  if (special(first) || special(second)) cuts_ = false;
}

int32_t BytePairs::find_character(char32_t character) const {
  if (character < kCharacters) return characters_[character];
  std::string text;
  append_character(text, character);
  return vocabulary().find(text);
}

bool BytePairs::is_boundary(char32_t first, char32_t second) const {
  return !joined_.find(first, second) && find_character(first) >= 0 && find_character(second) >= 0;
}

void BytePairs::encode(std::string_view piece, std::vector<int32_t>& out) const {
  // Parts that no merge joins are separate words; without this, a tokenizer that does not split
  // text would merge whole documents.
  size_t begin = 0;
  if (cuts_ && piece.size() > kMaxWhole) {
    size_t at = 0;
    auto before = next_character(piece, at);
    while (at < piece.size()) {
      const auto place = at;
      const auto character = next_character(piece, at);
      if (is_boundary(before, character)) {
        encode_cached(piece.substr(begin, place - begin), out);
        begin = place;
      }
      before = character;
    }
  }
  encode_cached(piece.substr(begin), out);
}

void BytePairs::encode_word(std::string_view word, std::vector<int32_t>& out) const {
  if (whole_words_)
    if (const auto id = vocabulary().find(word); id >= 0) return out.push_back(id);
  const auto first = out.size();
  append_characters(word, out);
  if (out.size() - first <= kMaxFew)
    merge_few(out, first);
  else
    merge_many(out, first);
}

bool BytePairs::append_bytes(std::string_view character, std::vector<int32_t>& out) const {
  const auto id_of = [&](char byte) { return bytes_[static_cast<uint8_t>(byte)]; };
  if (bytes_.empty() ||
      !std::ranges::all_of(character, [&](char byte) { return id_of(byte) >= 0; }))
    return false;
  for (const auto byte : character) out.push_back(id_of(byte));
  return true;
}

void BytePairs::append_characters(std::string_view word, std::vector<int32_t>& out) const {
  // An unknown character is appended before the next known one: until then it may be fused.
  bool pending = false;
  const auto flush = [&] {
    if (pending) out.push_back(unknown_);
    pending = false;
  };
  std::string spelling;
  for (size_t at = 0; at < word.size();) {
    const auto begin = at;
    const auto character = next_character(word, at);
    auto part = word.substr(begin, at - begin);
    int32_t id = -1;
    if (prefix_.empty() && suffix_.empty()) {
      id = character < kCharacters ? characters_[character] : vocabulary().find(part);
    } else {
      spelling = begin > 0 ? prefix_ : "";
      spelling += part;
      if (at == word.size()) spelling += suffix_;
      part = spelling;
      id = vocabulary().find(part);
    }
    if (id >= 0) {
      flush();
      out.push_back(id);
    } else if (!append_bytes(part, out) && !unknown_name_.empty()) {
      if (unknown_ < 0) fail_unknown(part);
      if (!fuses_unknown_) flush();
      pending = true;
    }
  }
  flush();
}

void BytePairs::merge_few(std::vector<int32_t>& tokens, size_t first) const {
  auto* token = tokens.data() + first;
  auto count = tokens.size() - first;
  const PairTable::Entry* found[kMaxFew + 1] = {};
  const auto look_up = [&](size_t i) {
    found[i] = merges_.find(static_cast<uint32_t>(token[i]), static_cast<uint32_t>(token[i + 1]));
  };
  for (size_t i = 0; i + 1 < count; ++i) look_up(i);
  while (count > 1) {
    size_t best = count;
    for (size_t i = 0; i + 1 < count; ++i)
      if (found[i] && (best == count || found[i]->order < found[best]->order)) best = i;
    if (best == count) break;
    token[best] = found[best]->result;
    std::copy(token + best + 2, token + count, token + best + 1);
    std::copy(found + best + 1, found + count - 1, found + best);
    --count;
    if (best > 0) look_up(best - 1);
    if (best + 1 < count) look_up(best);
  }
  tokens.resize(first + count);
}

void BytePairs::merge_many(std::vector<int32_t>& tokens, size_t first) const {
  // A linked list of tokens, and a queue of candidate merges: the earliest learned first, then the
  // leftmost.
  struct Candidate {
    int32_t order, result;
    size_t at;
    bool operator<(const Candidate& other) const {
      return order != other.order ? order > other.order : at > other.at;
    }
  };
  auto* token = tokens.data() + first;
  const auto size = tokens.size() - first;
  std::vector<size_t> next(size), before(size);
  std::vector<Candidate> queue;
  const auto look_up = [&](size_t at) {
    return merges_.find(static_cast<uint32_t>(token[at]), static_cast<uint32_t>(token[next[at]]));
  };
  const auto offer = [&](size_t at) {
    if (next[at] == size) return;
    if (const auto* merge = look_up(at)) {
      queue.push_back({merge->order, merge->result, at});
      std::push_heap(queue.begin(), queue.end());
    }
  };
  for (size_t at = 0; at < size; ++at) {
    next[at] = at + 1;
    before[at] = at - 1;  // of the first one: not used
  }
  for (size_t at = 0; at < size; ++at) offer(at);
  while (!queue.empty()) {
    const auto [order, result, at] = queue.front();
    std::pop_heap(queue.begin(), queue.end());
    queue.pop_back();
    if (token[at] < 0 || next[at] == size) continue;
    const auto* merge = look_up(at);
    if (!merge || merge->result != result) continue;
    token[at] = result;
    token[next[at]] = -1;
    next[at] = next[next[at]];
    if (next[at] < size) before[next[at]] = at;
    if (at > 0) offer(before[at]);
    offer(at);
  }
  tokens.erase(std::remove(tokens.begin() + static_cast<std::ptrdiff_t>(first), tokens.end(), -1),
               tokens.end());
}

}  // namespace lockstep::formats
