// Locates the samples of a language model in token shards: windows of up to T + 1 tokens, of which
// the first T are the input and the last T the targets. No LibTorch.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "formats/tokens/token_shards.h"

namespace lockstep::formats {

struct TokenWindow {
  size_t shard = 0, begin = 0;
  size_t tokens = 0;  // 2 to T + 1
};

class TokenWindows {
 public:
  // Windows start every `length` tokens of a shard and do not span shards; a remainder of fewer
  // than length + 1 tokens is dropped. With `separator`, the token that ends each document, windows
  // do not span documents, and the last window of a document may be shorter; documents of one token
  // have no window. This reads all tokens once.
  TokenWindows(size_t length, std::optional<int64_t> separator)
      : length_(length), separator_(separator) {}

  // Appends a shard.
  void add(const TokenShard& shard);
  // Appends a shard with this number of tokens. Requires that there is no separator.
  void add(size_t tokens);

  size_t size() const { return ends_.empty() ? 0 : ends_.back(); }
  // For each shard, the number of windows up to its end.
  const std::vector<size_t>& ends() const { return ends_; }
  TokenWindow at(size_t index) const;

 private:
  void add_documents(const TokenShard& shard);

  size_t length_;
  std::optional<int64_t> separator_;
  std::vector<size_t> ends_;
  std::vector<TokenWindow> windows_;  // with a separator
};

}  // namespace lockstep::formats
