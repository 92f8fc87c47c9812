// Where the samples of a language model lie in its shards: windows of up to T + 1 tokens, of which
// the first T are the input and the last T what is to be predicted. No LibTorch.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "data/token_shards.h"

namespace lockstep {

struct TokenWindow {
  size_t shard = 0, begin = 0;
  size_t tokens = 0;  // 2 to T + 1
};

class TokenWindows {
 public:
  // Windows begin every `length` tokens of a shard; none crosses two shards, and a rest of fewer
  // than length + 1 tokens is left out. With `separator`, which ends each document, windows cross
  // no documents either, and the last one of a document may be shorter; documents of one token have
  // none. Reads all tokens once then.
  TokenWindows(const std::vector<TokenShard>& shards, size_t length,
               std::optional<int64_t> separator);

  size_t size() const { return size_; }
  TokenWindow at(size_t index) const;

 private:
  void add_documents(const TokenShard& shard, size_t number, int64_t separator);

  size_t length_;
  std::vector<size_t> ends_;          // per shard: windows up to its end, without a separator
  std::vector<TokenWindow> windows_;  // with one
  size_t size_ = 0;
};

}  // namespace lockstep
