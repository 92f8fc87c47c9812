// Texts as the tokens of an encoder's tokenizer, with its special tokens.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "formats/table/labeled_text.h"
#include "formats/tokenizer/tokenizer.h"

namespace lockstep::data {

struct EncodedText {
  std::vector<int32_t> tokens;
  std::vector<int32_t> words;  // of each token: the index of the word that it begins; -1: none
  std::vector<int32_t> types;  // of each token of a pair: 0 or 1; empty: one text
};

class TextEncoder {
 public:
  // `path`: a tokenizer.json, or a directory with one. Throws Config.
  explicit TextEncoder(const std::filesystem::path& path);

  // The tokens of a pair are those of the tokenizer's post-processor, and if there are more than
  // `length`, the longer text is cut. Otherwise the tokens of a text or of its words, between the special tokens for begin and end; those after
  // `length` are cut.
  EncodedText encode(const formats::LabeledText& row, int64_t length);

  const formats::Tokenizer& tokenizer() const { return tokenizer_; }
  int64_t vocabulary() const { return static_cast<int64_t>(tokenizer_.vocabulary_size()); }
  bool is_special(int32_t token) const;
  // Throw Config if the tokenizer has no such token.
  int32_t padding() const { return required(padding_, "padding", "[PAD] or <pad>"); }
  int32_t mask() const { return required(mask_, "mask", "[MASK] or <mask>"); }

 private:
  EncodedText encode_pair(const std::string& first, const std::string& second,
                          int64_t length) const;
  int32_t required(std::optional<int32_t> token, const char* what, const char* names) const;

  std::string name_;
  formats::Tokenizer tokenizer_;
  std::optional<int32_t> begin_, end_, padding_, mask_;
};

}  // namespace lockstep::data
