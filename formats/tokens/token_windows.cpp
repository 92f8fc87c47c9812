#include "formats/tokens/token_windows.h"

#include <algorithm>

#include "lockstep/error.h"

namespace lockstep::formats {

void TokenWindows::add(const TokenShard& shard) {
  if (!separator_) return add(shard.size());
  add_documents(shard);
  ends_.push_back(windows_.size());
}

void TokenWindows::add(size_t tokens) { ends_.push_back(size() + (tokens - 1) / length_); }

TokenWindow TokenWindows::at(size_t index) const {
  check(index < size(), "sample index out of range");
  if (!windows_.empty()) return windows_[index];
  const auto shard = std::ranges::upper_bound(ends_, index) - ends_.begin();
  const auto first = shard == 0 ? 0 : ends_[static_cast<size_t>(shard) - 1];
  return {static_cast<size_t>(shard), (index - first) * length_, length_ + 1};
}

void TokenWindows::add_documents(const TokenShard& shard) {
  constexpr size_t kPiece = 1u << 16;
  std::vector<int64_t> piece(kPiece);
  size_t begin = 0;  // of the document
  const auto add = [&](size_t end) {
    for (auto at = begin; at + 1 < end; at += length_)
      windows_.push_back({ends_.size(), at, std::min(length_ + 1, end - at)});
    begin = end;
  };
  for (size_t at = 0; at < shard.size(); at += kPiece) {
    const auto tokens = std::span(piece).first(std::min(kPiece, shard.size() - at));
    shard.copy(at, tokens);
    for (size_t i = 0; i < tokens.size(); ++i)
      if (tokens[i] == separator_) add(at + i + 1);
  }
  add(shard.size());
  shard.verify_unchanged();
}

}  // namespace lockstep::formats
