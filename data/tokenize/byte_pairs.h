// Byte-pair encoding: a vocabulary of byte strings, and merges of two neighbors into one, the
// earlier learned first.
// Source: Sennrich et al., "Neural machine translation of rare words with subword units" (2016), on
// bytes as in GPT-2.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace lockstep::data {

using TokenPair = std::pair<int32_t, int32_t>;

struct TokenPairHash {
  size_t operator()(const TokenPair& pair) const {
    return std::hash<uint64_t>{}(static_cast<uint64_t>(static_cast<uint32_t>(pair.first)) << 32 |
                                 static_cast<uint32_t>(pair.second));
  }
};

struct BytePairs {
  std::vector<std::string> tokens;  // by number: the bytes of each; gaps are empty
  std::unordered_map<std::string, int32_t> numbers;
  std::vector<TokenPair> merges;  // in the order learned
};

// Encodes words with a vocabulary; remembers those it has seen.
// Thread: one at a time.
class BytePairEncoder {
 public:
  // Throws Config: a byte that is no token, a merge whose result is none.
  // `whole_words`: a word that is a token itself is not merged from its bytes ("ignore_merges").
  BytePairEncoder(const BytePairs& pairs, bool whole_words);

  // Appends the tokens of `word`.
  void encode(std::string_view word, std::vector<int32_t>& out);

 private:
  struct Merge {
    int32_t rank, result;
  };
  std::vector<int32_t> merge(std::string_view word) const;

  const BytePairs& pairs_;
  bool whole_words_;
  std::vector<int32_t> bytes_;
  std::unordered_map<TokenPair, Merge, TokenPairHash> merges_;
  std::unordered_map<std::string, std::vector<int32_t>> known_;
};

// Learns a vocabulary of at most `size` tokens from words and how often each occurs: `special`
// tokens, the 256 bytes in the order of their characters, then merges of the most frequent pair, of
// equal ones the pair of lower numbers, until none occurs `least` times. The vocabulary of the
// tokenizers library's BpeTrainer for the same words.
BytePairs learn_byte_pairs(const std::map<std::string, int64_t>& words, size_t size, int64_t least,
                           const std::vector<std::string>& special);

}  // namespace lockstep::data
