// Byte-pair encoding: a vocabulary of byte strings, and merges of two adjacent tokens, in the order
// learned. Source: Sennrich et al., "Neural machine translation of rare words with subword units"
// (2016), on bytes as in GPT-2.
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

// Encodes words with a vocabulary; caches results.
// Thread: one at a time.
class BytePairEncoder {
 public:
  // Throws Config if a byte, or the result of a merge, is not a token.
  // `whole_words`: a word that is a token is not built from its bytes ("ignore_merges").
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

// Learns a vocabulary of at most `size` tokens from words and their frequencies: `special` tokens,
// the 256 bytes in the order of their characters, then merges of the most frequent pair (ties:
// lower token numbers), until no pair occurs `least` times. Equals the vocabulary of the tokenizers
// library's BpeTrainer for the same words.
BytePairs learn_byte_pairs(const std::map<std::string, int64_t>& words, size_t size, int64_t least,
                           const std::vector<std::string>& special);

}  // namespace lockstep::data
