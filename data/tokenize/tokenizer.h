// A tokenizer.json of the tokenizers library, as far as it is byte-level BPE: what GPT-2, Llama 3
// and their relatives use.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenize/byte_pairs.h"
#include "data/tokenize/word_splitter.h"

namespace lockstep::data {

class Tokenizer {
 public:
  // Parses the text of a tokenizer.json. `name` stands for the file in messages. Throws Config:
  // damaged, or a kind of tokenizer that this is not, saying what would be.
  Tokenizer(std::string_view json, const std::string& name);

  // With the words of GPT-2's pattern. `special`: tokens that are no text.
  static Tokenizer learn(const std::map<std::string, int64_t>& words, size_t size, int64_t least,
                         const std::vector<std::string>& special);

  // Appends the tokens of `text`, which is UTF-8; special tokens that it contains become theirs.
  // Throws Config when it cannot be cut into words.
  void encode(std::string_view text, std::vector<int32_t>& out);

  // One more than the greatest token.
  size_t vocabulary_size() const;
  // The number of a token of the vocabulary or a special one.
  std::optional<int32_t> find(const std::string& token) const;

  // The text of a tokenizer.json that the tokenizers library reads.
  std::string to_json() const;

 private:
  Tokenizer() = default;
  void encode_plain(std::string_view text, std::vector<int32_t>& out);
  void make_encoder();

  std::string name_;
  std::shared_ptr<const BytePairs> pairs_;  // the encoder refers to it
  std::map<std::string, int32_t> special_;
  std::vector<WordSplitter> splitters_;  // one after the other
  bool prefix_blank_ = false;            // a text that does not begin with a blank gets one
  bool whole_words_ = false;
  std::optional<BytePairEncoder> encoder_;
};

// How often each word occurs in `text`, added to `words`.
void count_words(std::string_view text, std::map<std::string, int64_t>& words);

}  // namespace lockstep::data
