// Byte-pair encoding: merges of two adjacent tokens, in the order learned, from the characters of a
// word. Source: Sennrich et al., "Neural machine translation of rare words with subword units"
// (2016), on bytes as in GPT-2 or on characters as in SentencePiece.
#pragma once

#include <string>
#include <vector>

#include "formats/tokenizer/models/model.h"
#include "formats/tokenizer/models/pair_table.h"

namespace lockstep::formats {

class BytePairs : public TokenModel {
 public:
  // Throws Config.
  explicit BytePairs(const JsonPart& json);

  void encode(std::string_view piece, std::vector<int32_t>& out) const override;

 private:
  void read_merges(const JsonPart& json);
  void add_merge(const JsonPart& json, std::string_view first, std::string_view second);
  // Whether no merge can join the two characters.
  bool is_boundary(char32_t first, char32_t second) const;
  int32_t find_character(char32_t character) const;

  void encode_word(std::string_view word, std::vector<int32_t>& out) const override;
  // Appends the tokens of the word's characters.
  void append_characters(std::string_view word, std::vector<int32_t>& out) const;
  bool append_bytes(std::string_view character, std::vector<int32_t>& out) const;
  // Merge the tokens from position `first` on.
  void merge_few(std::vector<int32_t>& tokens, size_t first) const;
  void merge_many(std::vector<int32_t>& tokens, size_t first) const;

  PairTable merges_;
  int32_t merge_count_ = 0;
  std::string prefix_, suffix_;  // of tokens within a word, and at its end
  std::string unknown_name_;     // empty: unknown characters are dropped
  int32_t unknown_ = -1;
  bool fuses_unknown_, whole_words_;
  bool cuts_ = false;                // whether long pieces are cut at boundaries
  PairTable joined_;                 // the pairs of characters that some merge joins
  std::vector<int32_t> characters_;  // the tokens of the first characters of Unicode, or -1
  std::vector<int32_t> bytes_;       // the tokens of the 256 bytes, or -1; empty: not used
};

}  // namespace lockstep::formats
