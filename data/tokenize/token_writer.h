// Writes tokens into shards: 000000.bin, 000001.bin, ... No LibTorch.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "formats/element_type.h"

namespace lockstep::data {

// Shards appear under their names only when they are complete.
class TokenWriter {
 public:
  // `shard_tokens`: in each file but the last. Throws Environment.
  TokenWriter(std::filesystem::path folder, formats::ElementType type, size_t shard_tokens);

  void write(std::span<const int32_t> tokens);
  // Writes the rest. Throws Environment.
  void finish();

  size_t tokens() const { return tokens_; }
  size_t shards() const { return shards_; }

 private:
  void write_shard();

  std::filesystem::path folder_;
  formats::ElementType type_;
  size_t shard_tokens_, tokens_ = 0, shards_ = 0;
  std::string bytes_;  // of the current shard
};

}  // namespace lockstep::data
