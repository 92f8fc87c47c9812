// Token files: whole numbers, one after the other, as language models are trained on. No LibTorch.
//
// Format: a header of 256 int32 (magic, version, number of tokens, zeros), then the tokens, little
// endian: magic 20240520 and version 1 for uint16, magic 20240801 and version 7 for uint32. These
// are the files of llm.c (https://github.com/karpathy/llm.c, dev/data/data_common.py). A file
// without that header is taken as tokens from its first byte on, as nanoGPT writes them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "formats/element_type.h"
#include "formats/mapped_file.h"

namespace lockstep::formats {

// Where the tokens of a file begin and what they are.
struct TokenLayout {
  ElementType type = ElementType::U16;  // or U32
  size_t begin = 0;                     // byte of the first token
  size_t tokens = 0;
};

// `headerless`: the type where there is no header. Throws Config: no tokens, a header that does not
// fit the size, half a token at the end.
TokenLayout parse_token_file(std::span<const uint8_t> bytes, ElementType headerless,
                             const std::string& name);

// The 1024 bytes before `tokens` tokens. Throws Config for more than 2^31 - 1, which the format has
// no room for.
std::string token_file_header(ElementType type, size_t tokens);

// A mapped file of tokens.
class TokenShard {
 public:
  TokenShard(const std::filesystem::path& path, ElementType headerless);

  size_t size() const { return layout_.tokens; }
  const std::string& name() const { return file_->name(); }
  // Of the file: equal as long as it was not written to.
  const MappedFile::Identity& identity() const { return file_->identity(); }
  void verify_unchanged() const { file_->verify_unchanged(); }

  // Where tokens [begin, begin + count) lie in the mapped file. Requires them to be inside.
  std::span<const uint8_t> bytes_at(size_t begin, size_t count) const;

  // Writes the tokens [begin, begin + out.size()) to `out`. Requires them to be inside.
  void copy(size_t begin, std::span<int64_t> out) const;

 private:
  std::shared_ptr<const MappedFile> file_;
  TokenLayout layout_;
};

// `path`: a file, or a folder whose *.bin files are taken in the order of their names. Throws
// Config when there are none.
std::vector<std::filesystem::path> token_files(const std::filesystem::path& path);

}  // namespace lockstep::formats
