// Learns the vocabulary of a byte-level BPE tokenizer, as the BpeTrainer of the tokenizers library.
// No LibTorch.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep::data {

using TokenPair = std::pair<int32_t, int32_t>;

struct LearnedPairs {
  std::vector<std::string> tokens;  // the bytes of each, by id
  std::vector<TokenPair> merges;    // in the order learned
  size_t special = 0;               // how many of the tokens are special; they are the first
};

// Adds the number of occurrences of each word in `text` to `words`, by GPT-2's pattern.
void count_words(std::string_view text, std::map<std::string, int64_t>& words);

// Learns a vocabulary of at most `size` tokens from words and their frequencies: `special` tokens,
// the 256 bytes in the order of their characters, then merges of the most frequent pair (ties:
// lower token numbers), until no pair occurs `least` times. Equals the vocabulary of the tokenizers
// library for the same words.
LearnedPairs learn_byte_pairs(const std::map<std::string, int64_t>& words, size_t size,
                              int64_t least, const std::vector<std::string>& special);

// The text of a tokenizer.json.
std::string tokenizer_json(const LearnedPairs& pairs);

}  // namespace lockstep::data
