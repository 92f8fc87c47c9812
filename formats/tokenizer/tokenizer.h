// A tokenizer.json of the Hugging Face tokenizers library: text to tokens and back, as the library
// does it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/tokenizer/steps/encoded_text.h"

namespace lockstep::formats {

inline constexpr const char* kTokenizerFile = "tokenizer.json";
constexpr size_t kMaxTokenizerBytes = 256u << 20;

// Thread-safe: threads may use the const members of one tokenizer at the same time.
class Tokenizer {
 public:
  // Parses the text of a tokenizer.json. `name`: the file's name in messages. Truncation and
  // padding in it are not applied. Throws Config: corrupt, or an unsupported part (names those
  // supported).
  Tokenizer(std::string_view json, const std::string& name);
  ~Tokenizer();
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;

  // Appends the tokens of `text`; added tokens in it are recognized, none are inserted. Throws
  // Config: `text` is not valid UTF-8 (names the byte), has characters that the tokenizer has no
  // token for, or a regular expression takes too long on it.
  void encode(std::string_view text, std::vector<int32_t>& out) const;

  // The tokens of a text, or of a pair of texts, with the special tokens that the model expects
  // around them and token type ids. Throws as encode().
  EncodedText encode_for_model(std::string_view text) const;
  EncodedText encode_for_model(std::string_view first, std::string_view second) const;

  // The text of tokens. Ids without a token are skipped, and special tokens if `skip_special`.
  // Bytes that are not UTF-8 become U+FFFD.
  std::string decode(std::span<const int32_t> ids, bool skip_special = true) const;
  // The same without special tokens, with bytes that are not UTF-8 as they are.
  std::string decode_bytes(std::span<const int32_t> ids) const;

  // One more than the largest token id.
  size_t vocabulary_size() const;
  // The id of an added token or of one of the vocabulary, as the file spells it.
  std::optional<int32_t> find(const std::string& token) const;
  // Whether an id is that of a special token, and the spellings of all of these by id.
  bool is_special(int32_t id) const;
  std::vector<std::string> special_tokens() const;

 private:
  std::string decoded(std::span<const int32_t> ids, bool skip_special, bool keeps_bytes) const;
  EncodedText finish(std::vector<EncodedText> texts) const;

  struct Parts;
  std::unique_ptr<const Parts> parts_;
};

// The tokenizer.json at `path`: that file, or the one in that directory. Throws Config if there is
// none.
std::filesystem::path tokenizer_file(const std::filesystem::path& path);

// Reads tokenizer_file(path). Throws Config as these; Environment if the file cannot be read.
Tokenizer read_tokenizer(const std::filesystem::path& path);

}  // namespace lockstep::formats
