#include "data/loader/shards_ahead.h"

#include <algorithm>
#include <array>

namespace lockstep::data {

void ShardsAhead::advance(int64_t place) {
  if (!info_.fetch_ahead || place < next_) return;
  next_ = place + kAhead / 2;
  info_.fetch_ahead(shards_from(place));
}

std::vector<size_t> ShardsAhead::shards_from(int64_t place) const {
  std::vector<size_t> shards;
  std::vector<bool> is_known(info_.shards.size());
  std::array<int64_t, 4096> some;
  const auto end = std::min(samples_.size(), place + kAhead);
  while (place < end && shards.size() < is_known.size()) {
    const auto count = std::min<int64_t>(std::ssize(some), end - place);
    const std::span indices(some.data(), static_cast<size_t>(count));
    samples_.copy(place, indices);
    for (const auto index : indices) {
      const auto after = std::ranges::upper_bound(info_.shards, index);
      const auto shard = static_cast<size_t>(after - info_.shards.begin());
      if (is_known[shard]) continue;
      is_known[shard] = true;
      shards.push_back(shard);
    }
    place += count;
  }
  return shards;
}

}  // namespace lockstep::data
