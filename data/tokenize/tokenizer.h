// A byte-level BPE tokenizer.json of the tokenizers library, as used by GPT-2, Llama 3 and similar
// models.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenize/byte_pairs.h"
#include "data/tokenize/word_splitter.h"

namespace lockstep::data {

class Tokenizer {
 public:
  // Parses the text of a tokenizer.json. `name`: the file's name in messages. Throws Config:
  // corrupt, or an unsupported kind of tokenizer (names the supported one).
  Tokenizer(std::string_view json, const std::string& name);

  // Uses GPT-2's word pattern. `special`: tokens that are not text.
  static Tokenizer learn(const std::map<std::string, int64_t>& words, size_t size, int64_t least,
                         const std::vector<std::string>& special);

  // Appends the tokens of `text`, which is UTF-8; special tokens in it are recognized. Throws
  // Config if it cannot be split into words.
  void encode(std::string_view text, std::vector<int32_t>& out);

  // One more than the largest token id.
  size_t vocabulary_size() const;
  // The id of a vocabulary or special token.
  std::optional<int32_t> find(const std::string& token) const;
  // The text of tokens; numbers without a token are skipped, and special tokens if `skip_special`.
  std::string decode(std::span<const int32_t> tokens, bool skip_special) const;

  // The text of a tokenizer.json for the tokenizers library.
  std::string to_json() const;

 private:
  Tokenizer() = default;
  void encode_plain(std::string_view text, std::vector<int32_t>& out);
  void make_encoder();

  std::string name_;
  std::shared_ptr<const BytePairs> pairs_;  // the encoder refers to it
  std::map<std::string, int32_t> special_;
  std::map<int32_t, std::string> special_texts_;
  std::vector<WordSplitter> splitters_;  // applied in order
  bool prefix_blank_ = false;  // adds a space in front of text that does not start with one
  bool whole_words_ = false;
  std::optional<BytePairEncoder> encoder_;
};

// Adds the number of occurrences of each word in `text` to `words`.
void count_words(std::string_view text, std::map<std::string, int64_t>& words);

}  // namespace lockstep::data
