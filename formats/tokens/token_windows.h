// Where the samples of a language model lie in its shards: windows of up to T + 1 tokens, of which
// the first T are the input and the last T what is to be predicted. No LibTorch.
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
  // Windows begin every `length` tokens of a shard; none crosses two shards, and a rest of fewer
  // than length + 1 tokens is left out. With `separator`, which ends each document, windows cross
  // no documents either, and the last one of a document may be shorter; documents of one token have
  // none. Reads all tokens once then.
  TokenWindows(size_t length, std::optional<int64_t> separator)
      : length_(length), separator_(separator) {}

  // The next shard.
  void add(const TokenShard& shard);

  size_t size() const { return ends_.empty() ? 0 : ends_.back(); }
  // Per shard: windows up to its end.
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
