// The compiled normalization rules of SentencePiece: a trie of what is replaced (a double array of
// Darts-clone), then the replacements. Source: sentencepiece/src/normalizer.cc.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::formats {

// Thread-safe.
class Charsmap {
 public:
  // `base64`: a precompiled_charsmap of a tokenizer.json; an empty one changes nothing. Throws
  // Config: corrupt.
  explicit Charsmap(std::string_view base64);

  // Replaces grapheme clusters, and the characters of those that have no replacement, like the
  // tokenizers library.
  std::string apply(std::string_view text) const;

 private:
  // The replacement of `part`: that of the shortest prefix that has one.
  std::optional<std::string_view> find(std::string_view part) const;
  void append_grapheme(std::string& out, std::string_view grapheme) const;

  std::vector<uint32_t> trie_;
  std::string replacements_;           // each ends with a zero byte
  std::array<bool, 128> unchanged_{};  // ASCII characters without a replacement
};

}  // namespace lockstep::formats
