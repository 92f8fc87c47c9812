// Token files: sequences of integers for training language models. No LibTorch.
//
// Format: a header of 256 int32 (magic, version, number of tokens, zeros), then the tokens, little
// endian: magic 20240520 and version 1 for uint16, magic 20240801 and version 7 for uint32. These
// are the files of llm.c (https://github.com/karpathy/llm.c, dev/data/data_common.py). A file
// without that header consists of tokens only, as written by nanoGPT.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "formats/element_type.h"
#include "formats/mapped_file.h"

namespace lockstep::formats {

// The offset, type and number of the tokens in a file.
struct TokenLayout {
  ElementType type = ElementType::U16;  // or U32
  size_t begin = 0;                     // byte offset of the first token
  size_t tokens = 0;
};

// `headerless`: the type if there is no header. Throws Config: no tokens, a header that does not
// match the file size, an incomplete token at the end.
TokenLayout parse_token_file(std::span<const uint8_t> bytes, ElementType headerless,
                             const std::string& name);

// The layout of a file of `size` bytes with the same type and header, if any; nullopt: there is none.
std::optional<TokenLayout> layout_like(const TokenLayout& other, int64_t size);

// The 1024-byte header for `tokens` tokens. Throws Config for more than 2^31 - 1, the limit of the
// format.
std::string token_file_header(ElementType type, size_t tokens);

// A mapped file of tokens.
class TokenShard {
 public:
  TokenShard(const std::filesystem::path& path, ElementType headerless);

  size_t size() const { return layout_.tokens; }
  const TokenLayout& layout() const { return layout_; }
  const std::string& name() const { return file_->name(); }
  // The identity of the file; it changes when the file is modified.
  const MappedFile::Identity& identity() const { return file_->identity(); }
  void verify_unchanged() const { file_->verify_unchanged(); }

  // The bytes of tokens [begin, begin + count) in the mapped file. Requires a valid range.
  std::span<const uint8_t> bytes_at(size_t begin, size_t count) const;

  // Copies tokens [begin, begin + out.size()) to `out`. Requires a valid range.
  void copy(size_t begin, std::span<int64_t> out) const;

 private:
  std::shared_ptr<const MappedFile> file_;
  TokenLayout layout_;
};

// `path` if it is a file, otherwise the *.bin files of the directory or prefix `path`, sorted by name.
// Throws Config if there are none.
std::vector<std::filesystem::path> token_files(const std::filesystem::path& path);

}  // namespace lockstep::formats
