#include "formats/tokenizer/models/unigram.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "core/printable.h"
#include "formats/tokenizer/text/unicode.h"

namespace lockstep::formats {
namespace {

constexpr double kUnknownPenalty = 10;

Vocabulary vocabulary_of_list(const JsonPart& json) {
  const auto& list = json.value();
  if (!list.is_array() || list.empty() || list.size() >= kMaxTokens)
    throw json.refused("it is not a list of tokens with their scores");
  Vocabulary vocabulary;
  for (const auto& entry : list) {
    if (!entry.is_array() || entry.size() != 2 || !entry[0].is_string() || !entry[1].is_number())
      throw json.refused(fmt::format("entry {} is not a token and its score", vocabulary.end()));
    vocabulary.add(entry[0].get<std::string>());
  }
  return vocabulary;
}

// A score as the library reads it from the text of the file: its JSON parser rounds the digits to a
// double, then divides by a power of ten. That bit decides between equal paths.
double score_of_library(double score) {
  std::array<char, 40> text{};
  const auto end =
      std::to_chars(text.begin(), text.end(), score, std::chars_format::scientific).ptr;
  uint64_t digits = 0;
  int exponent = 0, decimals = 0;
  bool is_fraction = false;
  for (auto at = text.begin(); at != end; ++at) {
    if (*at == 'e') {
      std::from_chars(at[1] == '+' ? at + 2 : at + 1, end, exponent);
      break;
    }
    if (*at == '.') is_fraction = true;
    if (*at < '0' || *at > '9') continue;
    digits = digits * 10 + static_cast<uint64_t>(*at - '0');
    decimals += is_fraction;
  }
  exponent -= decimals;
  const auto power = std::pow(10.0, std::abs(exponent));
  const auto size =
      exponent < 0 ? static_cast<double>(digits) / power : static_cast<double>(digits) * power;
  return std::copysign(size, score);
}

// The best path that ends at a position.
struct PathEnd {
  double score = 0;
  size_t begin = SIZE_MAX;
  int32_t id = -1;
};

}  // namespace

std::vector<int32_t> byte_tokens(const Vocabulary& vocabulary) {
  std::vector<int32_t> ids;
  for (int byte = 0; byte < 256; ++byte)
    ids.push_back(vocabulary.find(fmt::format("<0x{:02X}>", byte)));
  return ids;
}

PrefixTrie::PrefixTrie(const Vocabulary& vocabulary) {
  std::vector<std::pair<std::string_view, int32_t>> tokens;
  for (size_t i = 0; i < vocabulary.end(); ++i)
    if (const auto* token = vocabulary.find(static_cast<int32_t>(i)); token && !token->empty())
      tokens.emplace_back(*token, vocabulary.find(*token));
  std::ranges::sort(tokens);
  // Breadth first: the children of a node are consecutive.
  struct Range {
    size_t begin, end, depth;
  };
  std::vector<Range> ranges = {{0, tokens.size(), 0}};
  nodes_.emplace_back();
  for (size_t n = 0; n < nodes_.size(); ++n) {
    auto [begin, end, depth] = ranges[n];
    while (begin < end && tokens[begin].first.size() == depth)
      nodes_[n].id = tokens[begin++].second;
    nodes_[n].edges = static_cast<uint32_t>(labels_.size());
    while (begin < end) {
      const auto label = tokens[begin].first[depth];
      auto behind = begin;
      while (behind < end && tokens[behind].first[depth] == label) ++behind;
      labels_.push_back(static_cast<uint8_t>(label));
      targets_.push_back(static_cast<uint32_t>(nodes_.size()));
      ++nodes_[n].count;
      nodes_.emplace_back();
      ranges.push_back({begin, behind, depth + 1});
      begin = behind;
    }
  }
}

uint32_t PrefixTrie::child(uint32_t node, uint8_t label) const {
  const auto& [edges, count, id] = nodes_[node];
  const auto begin = labels_.begin() + edges;
  const auto end = begin + count;
  const auto found = count > 8 ? std::lower_bound(begin, end, label) : std::find(begin, end, label);
  return found == end || *found != label ? 0
                                         : targets_[static_cast<size_t>(found - labels_.begin())];
}

Unigram::Unigram(const JsonPart& json)
    : TokenModel(vocabulary_of_list(json.part("vocab"))), trie_(vocabulary()) {
  auto least = std::numeric_limits<double>::infinity();
  for (const auto& entry : json.part("vocab").value()) {
    scores_.push_back(score_of_library(entry[1].get<double>()));
    least = std::min(least, scores_.back());
  }
  unknown_score_ = least - kUnknownPenalty;
  if (json.has("unk_id"))
    unknown_ =
        static_cast<int32_t>(json.number("unk_id", 0, static_cast<int64_t>(scores_.size()) - 1));
  if (json.flag("byte_fallback", false)) bytes_ = byte_tokens(vocabulary());
}

void Unigram::append_unknown(std::string_view text, std::vector<int32_t>& out) const {
  if (const auto id = vocabulary().find(text); id >= 0) return out.push_back(id);
  const auto id_of = [&](char byte) { return bytes_[static_cast<uint8_t>(byte)]; };
  const bool has_bytes =
      !bytes_.empty() && std::ranges::all_of(text, [&](char byte) { return id_of(byte) >= 0; });
  if (!has_bytes) return out.push_back(unknown_);
  for (const auto byte : text) out.push_back(id_of(byte));
}

void Unigram::encode_word(std::string_view word, std::vector<int32_t>& out) const {
  thread_local std::vector<PathEnd> ends;
  ends.assign(word.size() + 1, PathEnd{});
  const auto offer = [&](size_t begin, size_t end, int32_t id, double score) {
    if (ends[end].begin == SIZE_MAX || score > ends[end].score) ends[end] = {score, begin, id};
  };
  for (size_t at = 0; at < word.size();) {
    const auto single = std::min(utf8_size(word[at]), word.size() - at);
    bool has_single = false;
    trie_.prefixes(word.substr(at), [&](int32_t id, size_t size) {
      offer(at, at + size, id, scores_[static_cast<size_t>(id)] + ends[at].score);
      has_single |= size == single;
    });
    if (!has_single) {
      if (unknown_ < 0) fail_unknown(word.substr(at, single));
      offer(at, at + single, unknown_, unknown_score_ + ends[at].score);
    }
    at += single;
  }
  const auto first = static_cast<std::ptrdiff_t>(out.size());
  // Backwards; adjacent unknown characters are one part.
  for (size_t end = word.size(); end > 0;) {
    auto begin = ends[end].begin;
    if (const auto id = ends[end].id; id != unknown_) {
      out.push_back(id);
    } else {
      while (begin > 0 && ends[begin].id == unknown_) begin = ends[begin].begin;
      const auto before = static_cast<std::ptrdiff_t>(out.size());
      append_unknown(word.substr(begin, end - begin), out);
      std::reverse(out.begin() + before, out.end());
    }
    end = begin;
  }
  std::reverse(out.begin() + first, out.end());
}

}  // namespace lockstep::formats
