#include "data/tokenize/token_writer.h"

#include <fmt/format.h>

#include "core/system/durable_file.h"
#include "formats/tokens/token_shards.h"

namespace lockstep::data {

TokenWriter::TokenWriter(std::filesystem::path folder, formats::ElementType type,
                         size_t shard_tokens)
    : folder_(std::move(folder)), type_(type), shard_tokens_(shard_tokens) {
  make_directories(folder_);
}

void TokenWriter::write(std::span<const int32_t> tokens) {
  for (const auto token : tokens) {
    for (size_t i = 0; i < formats::bytes_of(type_); ++i)
      bytes_ += static_cast<char>(token >> (8 * i));
    ++tokens_;
    if (bytes_.size() == shard_tokens_ * formats::bytes_of(type_)) write_shard();
  }
}

void TokenWriter::finish() {
  if (!bytes_.empty()) write_shard();
}

void TokenWriter::write_shard() {
  write_file_durably(
      folder_ / fmt::format("{:06}.bin", shards_),
      formats::token_file_header(type_, bytes_.size() / formats::bytes_of(type_)) + bytes_);
  bytes_.clear();
  ++shards_;
}

}  // namespace lockstep::data
